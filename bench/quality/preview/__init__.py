"""Previews: how many facts about files of others an outline answers, beside heads and tails."""
