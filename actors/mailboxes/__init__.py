"""Mailboxes: one per subscriber, by priority, with acknowledgement, redelivery, deadlines and dead letters."""
