package main

import (
	"errors"
	"io"

	"keyp/internal/config"
)

const completionUsage = "usage: keyp completion bash | zsh | fish"

// completion prints the script with which a shell completes the program's command lines.
func completion(args []string, out io.Writer) error {
	if len(args) != 1 || !config.CanComplete(args[0]) {
		return errors.New(completionUsage)
	}
	return config.Completion(args[0], out)
}
