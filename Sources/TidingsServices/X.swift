/// Placeholder of the target.
