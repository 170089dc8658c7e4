package main

import (
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"keyp/internal/config"
	"keyp/internal/testkit"
)

const deployed = "../../deploy"

func deployedFile(t *testing.T, name string) string {
	t.Helper()
	text, err := os.ReadFile(filepath.Join(deployed, name))
	if err != nil {
		t.Fatal(err)
	}
	return string(text)
}

// tool runs a program that the tests can do without.
func tool(t *testing.T, name, from string, args ...string) {
	t.Helper()
	path, found := testkit.FindTool(name)
	if !found {
		t.Logf("SKIPPED: %s (%s) is not installed, so it does not check %s", name, from, args[len(args)-1])
		return
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
}

// The unit lets the service do little, and waits for its notifications.
func TestUnit(t *testing.T) {
	unit := deployedFile(t, "systemd/keyp.service")
	for _, want := range []string{"Type=notify", "WatchdogSec=", "User=keyp", "ExecStart=/usr/bin/keyp /etc/keyp/keyp.conf", "ExecReload=/bin/kill -HUP $MAINPID"} {
		if !strings.Contains(unit, "\n"+want) {
			t.Errorf("the unit has no %s", want)
		}
	}
	tool(t, "systemd-analyze", "systemd", "security", "--no-pager", "--offline=true", "--threshold=20", filepath.Join(deployed, "systemd", "keyp.service"))
}

// The packages' configuration is one that the server reads, and its files are where unit and rotation have them.
func TestPackagedConfiguration(t *testing.T) {
	cfg, err := config.Load([]string{filepath.Join(deployed, "package", "keyp.conf")}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings()) > 0 {
		t.Error(cfg.Warnings())
	}
	unit, rotation := deployedFile(t, "systemd/keyp.service"), deployedFile(t, "package/logrotate")
	for option, directory := range map[string]string{"dir": "StateDirectory /var/lib/", "logfile": "LogsDirectory /var/log/", "pidfile": "RuntimeDirectory /run/"} {
		setting, base, _ := strings.Cut(directory, " ")
		name := regexp.MustCompile(`(?m)^` + setting + `=(.*)$`).FindStringSubmatch(unit)
		if path := cfg.String(option); name == nil || path != base+name[1] && filepath.Dir(path) != base+name[1] {
			t.Errorf("%s is %s, and the unit has %q", option, path, name)
		}
	}
	if !strings.HasPrefix(rotation, filepath.Dir(cfg.String("logfile"))+"/*.log {") || !strings.Contains(rotation, `kill -HUP "$(cat `+cfg.String("pidfile")+`)"`) {
		t.Errorf("what is rotated is not what is logged to: %s", rotation)
	}
}
