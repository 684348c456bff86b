"""The queue of one mailbox: levels with deadlines, a policy against starvation, and the on-time rate per level."""
