"""Client: asking. The same verbs, local or over HTTP, blocking or awaited."""
