package commands

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"keyp/internal/config"
	"keyp/storage"
)

func TestConfigCommands(t *testing.T) {
	h, _, _, _ := hosted(t)
	h.run(`
		CONFIG GET maxmemory -> ["maxmemory", "0"]
		CONFIG GET MAXMEMORY -> ["maxmemory", "0"]
		CONFIG GET maxmemory-p* timeout maxmemory-po* -> ["maxmemory-policy", "noeviction", "timeout", "0"]
		CONFIG GET nothing -> []
		CONFIG GET -> -ERR wrong number of arguments for 'config|get' command
		CONFIG SET a -> -ERR wrong number of arguments for 'config|set' command
		CONFIG SET a b c -> -ERR syntax error
		CONFIG SET foo bar -> -ERR Unknown option or number of arguments for CONFIG SET - 'foo'
		CONFIG SET port 1 -> -ERR CONFIG SET failed (possibly related to argument 'port') - can't set immutable config
		CONFIG SET maxmemory 1zb -> -ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value
		CONFIG SET timeout 5 timeout 6 -> -ERR CONFIG SET failed (possibly related to argument 'timeout') - duplicate parameter
		CONFIG SET timeout 5 maxmemory 1gb -> +OK
		CONFIG GET timeout maxmemory -> ["maxmemory", "1073741824", "timeout", "5"]
		CONFIG SET timeout 6 maxmemory x -> -ERR CONFIG SET failed (possibly related to argument 'maxmemory') - argument must be a memory value
		CONFIG GET timeout -> ["timeout", "5"]
		CONFIG GET appendonly -> ["appendonly", "yes"]
		CONFIG REWRITE -> -ERR The server is running without a config file
		CONFIG RESETSTAT -> +OK
		CONFIG FOO -> -ERR unknown subcommand 'FOO'. Try CONFIG HELP.
		proto 3
		CONFIG GET timeout -> {"timeout": "5"}
	`)
}

func TestConfigRewriteCommand(t *testing.T) {
	file := filepath.Join(t.TempDir(), "keyp.conf")
	if err := os.WriteFile(file, []byte("# mine\ntimeout 3\n"), 0o600); err != nil {
		t.Fatal(err)
	}
	cfg, err := config.Load([]string{file}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	h := newHarness(t)
	h.env.Config = cfg
	h.run(`
		CONFIG SET timeout 4 -> +OK
		CONFIG REWRITE -> +OK
	`)
	if got, err := os.ReadFile(file); err != nil || string(got) != "# mine\ntimeout 4\n" {
		t.Errorf("%q, %v", got, err)
	}
}

// TestEventBits: the letters of notify-keyspace-events have the bits of storage.EventClass.
func TestEventBits(t *testing.T) {
	cfg := config.New()
	for letters, class := range map[string]storage.EventClass{
		"g": storage.EventGeneric, "$": storage.EventString, "l": storage.EventList,
		"s": storage.EventSet,
		"h": storage.EventHash, "z": storage.EventZSet, "x": storage.EventExpired,
		"e": storage.EventEvicted,
		"t": storage.EventStream, "m": storage.EventMiss, "d": storage.EventModule,
		"n": storage.EventNew,
		"K": storage.EventKeyspace, "E": storage.EventKeyevent, "o": storage.EventOverwritten,
		"c": storage.EventTypeChanged,
		"S": storage.EventFieldSpace, "T": storage.EventFieldEvent, "I": storage.EventFieldItem,
		"V": storage.EventFieldSpaceEvent,
	} {
		if err := cfg.Set(config.Pair{Name: "notify-keyspace-events", Value: letters}); err != nil {
			t.Fatal(err)
		}
		if got := storage.EventClass(cfg.Int("notify-keyspace-events")); got != class {
			t.Errorf("%s has the bits %b, want %b", letters, got, class)
		}
	}
}

func TestHelp(t *testing.T) {
	h := newHarness(t)
	for _, spec := range h.env.Table.All() {
		for i := range spec.Sub {
			sub := &spec.Sub[i]
			if sub.Name != "HELP" {
				continue
			}
			text := h.do(spec.Name, "HELP")
			if text == "-"+string(errNoCluster) {
				continue
			}
			for j := range spec.Sub {
				if !strings.Contains(text, spec.Sub[j].Name) {
					t.Errorf("%s HELP does not mention %s", spec.Name, spec.Sub[j].Name)
				}
			}
		}
	}
}
