package commands

import (
	"errors"
	"time"

	"keyp/internal/config"
	"keyp/storage"
)

// keypClockCommands show whether the store's time is guarded, and end that state. Guarded time
// continues evenly, and does not follow a forward step of the wall clock (storage/guard.go).
var keypClockCommands = []Spec{{
	Name: "KEYP.CLOCK", Group: KeypGroup, Since: "0.1.0", Arity: -2,
	Summary: "Shows and confirms steps of the wall clock.", Complexity: "Depends on subcommand.",
	Sub: []Spec{
		{
			Name: "INFO", Group: KeypGroup, Since: "0.1.0", Arity: 2, Flags: Loading | Stale | Fast,
			Scope:   OnLoop,
			Summary: "Shows the wall clock and the time by which keys expire.", Complexity: "O(1)",
			Tips: []string{tipRandom},
			Run:  clockInfo,
		},
		{
			Name: "CONFIRM", Group: KeypGroup, Since: "0.1.0", Arity: 2,
			Flags: Admin | NoScript | NoMulti, Scope: Unlocked,
			Summary:    "Takes a step of the wall clock forward as right: time follows it, and deadlines that counted from the guarded time move with it.",
			Complexity: "O(N) in the number of those deadlines.",
			Run:        clockConfirm,
		},
		helpFor("KEYP.CLOCK", KeypGroup, "0.1.0", Loading|Stale,
			"INFO", "    The wall clock and the time by which keys expire.",
			"CONFIRM", "    Takes a step of the wall clock forward as right."),
	},
}}

const errNoClockStep Error = "ERR time is not guarded: there is no step of the clock to confirm"

// clockInfo replies with a map. Instants are in Unix ms, and spans of time in ms.
func clockInfo(c *Ctx) error {
	clock := c.Env.Store.ClockGuard()
	state := "follows"
	if clock.Since != 0 {
		state = "guarded"
	}
	c.Out.Map(6)
	c.Out.BulkString("state")
	c.Out.BulkString(state)
	for _, field := range []struct {
		name  string
		value int64
	}{{"wall", clock.Wall}, {"time", clock.Now}, {"ahead", clock.Ahead}, {"since", clock.Since},
		{"patience", clock.Patience}} {
		c.Out.BulkString(field.name)
		c.Out.Int(field.value)
	}
	return nil
}

func clockConfirm(c *Ctx) error {
	err := c.Env.Store.ConfirmClock()
	if errors.Is(err, storage.ErrNoClockStep) {
		return errNoClockStep
	}
	if errors.Is(err, storage.ErrFollower) {
		return ErrReadOnly
	}
	if err == nil {
		c.Out.OK()
	}
	return err
}

// ClockGuard returns clock-jump-limit and clock-jump-patience.
func ClockGuard(cfg *config.Config) (limit, patience time.Duration) {
	return time.Duration(cfg.Int("clock-jump-limit")) * time.Millisecond,
		time.Duration(cfg.Int("clock-jump-patience")) * time.Millisecond
}
