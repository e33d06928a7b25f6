"""curro decides which prompts a policy practises on next."""
