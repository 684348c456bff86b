"""The language of subscriptions (a SQL WHERE clause): from text to tree to normal form and back."""
