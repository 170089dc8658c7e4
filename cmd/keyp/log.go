package main

import (
	"fmt"
	"log/slog"
	"math"
	"os"

	"keyp/internal/config"
)

// levels are loglevel's values.
var levels = map[string]slog.Level{
	"debug":   slog.LevelDebug,
	"verbose": slog.LevelInfo - 2,
	"notice":  slog.LevelInfo,
	"warning": slog.LevelWarn,
	"nothing": math.MaxInt,
}

// openLog gives the logger that loglevel and logfile ask for; CONFIG SET loglevel
// changes it. closeLog is called once, when nothing logs any more.
func openLog(cfg *config.Config) (logger *slog.Logger, closeLog func() error, err error) {
	out, closeLog := os.Stderr, func() error { return nil }
	if path := cfg.String("logfile"); path != "" {
		out, err = os.OpenFile(path, os.O_APPEND|os.O_CREATE|os.O_WRONLY, 0o640)
		if err != nil {
			return nil, nil, fmt.Errorf("cannot open the log file: %w", err)
		}
		closeLog = out.Close
	}
	var level slog.LevelVar
	apply := func() error {
		level.Set(levels[cfg.String("loglevel")])
		return nil
	}
	cfg.OnChange("loglevel", apply)
	return slog.New(slog.NewTextHandler(out, &slog.HandlerOptions{Level: &level})), closeLog, apply()
}
