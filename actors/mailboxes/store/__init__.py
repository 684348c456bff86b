"""Mailboxes on disk."""
