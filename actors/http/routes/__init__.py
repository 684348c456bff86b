"""The handlers of all paths: publishing, subscribing, consuming, webhooks, looking in."""
