"""Why an attack works, and what it takes: the auditor's own looks at a federation."""
