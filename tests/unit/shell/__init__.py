"""The shell without its V8 or without a server: addresses, prompts, completion, SCRAM, the deployment."""
