"""What each path answers: publishing, subscribing, consuming, webhooks, looking in."""
