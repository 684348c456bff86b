"""The demo: a server under fire, in a minute."""
