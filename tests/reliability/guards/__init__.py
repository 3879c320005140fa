"""Each check that a comment `# guard: NAME` marks is broken on purpose, to see a test fail."""
