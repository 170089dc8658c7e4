package commands

import "keyp/internal/config"

// CheckConfig returns what is wrong with a configuration about commands: names for what is no command,
// or for two of them.
func CheckConfig(cfg *config.Config) error { return NewTable().Rename(cfg.Renames()) }
