"""The queue of one mailbox: levels with deadlines, a policy against starvation, the on-time rate per level."""
