"""Previews: how many facts about files of others an outline answers, against heads and tails."""
