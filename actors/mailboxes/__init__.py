"""Mailboxes: one per subscriber, ordered by priority, with acknowledgement, redelivery, deadlines and dead letters."""
