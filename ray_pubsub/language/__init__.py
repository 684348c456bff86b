"""From text to tree to normal form and back: the language of subscriptions (a SQL WHERE clause)."""
