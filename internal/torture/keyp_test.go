package torture

import (
	"bytes"
	"fmt"
	"log/slog"
	"slices"

	"keyp/commands"
	"keyp/internal/clock"
	"keyp/internal/config"
	"keyp/resp"
	"keyp/storage"
)

const databases = 3

// keyp is a server without sockets or goroutines.
type keyp struct {
	clock  *clock.Fake
	store  *storage.Store
	env    *commands.Env
	client *commands.Client
	ctx    commands.Ctx
}

// open starts a Keyp. o has the options for its disk.
func open(o storage.Options, clk *clock.Fake) (*keyp, error) {
	o.Clock, o.Logger = clk, slog.New(slog.DiscardHandler)
	o.Databases, o.Shards, o.InitialMmap = databases, 4, 256<<10
	o.NoBackground, o.Testing.SmallSteps, o.DiskReserve = true, true, 1
	o.Hooks = commands.Features
	store, _, err := storage.Open(o)
	if err != nil {
		return nil, err
	}
	k := &keyp{clock: clk, store: store}
	cfg := config.New()
	if err := cfg.Set(config.Pair{Name: "stream-node-max-entries", Value: "4"}); err != nil {
		// With this option streams have several runs.
		return nil, err
	}
	k.env = commands.NewEnv(store, cfg, o.Logger, clk)
	k.client = &commands.Client{ID: 1}
	k.env.Reset(k.client)
	k.ctx = commands.Ctx{Client: k.client, Out: &resp.Writer{Proto: 2}, Txn: store.NewTxn()}
	return k, nil
}

// do runs a command and returns its reply and the log position that the reply depends on. Loading a
// library has a limit of real time, so a busy machine may need several attempts.
func (k *keyp) do(args [][]byte) (reply []byte, lsn uint64) {
	for range 20 {
		if reply, lsn = k.try(args); !bytes.Contains(reply, []byte("FUNCTION LOAD timeout")) {
			break
		}
	}
	return reply, lsn
}

func (k *keyp) try(args [][]byte) (reply []byte, lsn uint64) {
	c := &k.ctx
	c.Args = args
	c.Out.Truncate(0)
	for try := range 6 {
		c.Past.Loads = try * 2 // in the end they are read while others are locked
		switch out := k.env.Dispatch(c); out {
		case commands.Done:
			c.RunEmitted()
			return slices.Clone(c.Out.Buf), c.LSN
		case commands.Load:
			if !k.load(c.Keys, c.Runs) {
				k.env.Reset(k.client) // it may be amid MULTI
				return []byte(unread), 0
			}
		case commands.Task:
			var task commands.Ctx
			k.env.StartTask(c, &task, c.Out, k.store.NewTxn(), false)
			again := k.env.RunTask(&task, func(fn func()) bool { fn(); return true })
			k.env.EndTask(&task)
			task.RunEmitted()
			if !again {
				return slices.Clone(c.Out.Buf), task.LSN
			}
		default:
			panic(fmt.Sprintf("%.80q: outcome %v", args, out))
		}
	}
	panic(fmt.Sprintf("%.80q: its keys were loaded again and again and are still missing", args))
}

// unread is the reply if a store that has failed cannot read a command's keys.
const unread = "-UNREAD"

// load reports whether keys and runs could be read.
func (k *keyp) load(keys []storage.Key, runs []storage.Runs) bool {
	var failed error
	k.store.LoadWith(keys, runs, func(err error) { failed = err })
	k.store.Manual().Serve()
	if failed != nil && k.store.Err() == nil {
		panic(fmt.Sprintf("load: %v", failed))
	}
	return failed == nil
}
