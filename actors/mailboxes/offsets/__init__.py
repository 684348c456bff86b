"""Mailboxes that are read by sequence number, as a Spark stream reads them."""
