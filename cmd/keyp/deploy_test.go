package main

import (
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"strings"
	"testing"

	"go.yaml.in/yaml/v2"

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

// tool runs a program on some files, or skips this check if the program is not installed.
func tool(t *testing.T, name, from string, args ...string) {
	t.Helper()
	path, found := testkit.FindTool(name)
	if !found {
		t.Logf("SKIPPED: %s (%s) is not installed, so it does not check %s", name, from,
			args[len(args)-1])
		return
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	if out, err := cmd.CombinedOutput(); err != nil {
		t.Errorf("%s %q: %v\n%s", name, args, err, out)
	}
}

// TestUnit: the systemd unit restricts the service, and waits for its notifications.
func TestUnit(t *testing.T) {
	unit := deployedFile(t, "systemd/keyp.service")
	for _, want := range []string{"Type=notify", "WatchdogSec=", "User=keyp",
		"ExecStart=/usr/bin/keyp /etc/keyp/keyp.conf", "ExecReload=/bin/kill -HUP $MAINPID"} {
		if !strings.Contains(unit, "\n"+want) {
			t.Errorf("the unit has no %s", want)
		}
	}
	var version int
	if path, found := testkit.FindTool("systemd-analyze"); found {
		out, _ := exec.CommandContext(t.Context(), path, "--version").Output()
		_, _ = fmt.Sscanf(string(out), "systemd %d", &version) // 0 is an old one
	}
	if version < 250 {
		t.Log("SKIPPED: systemd-analyze, which checks the unit, is not installed or older than version 250")
		return
	}
	tool(t, "systemd-analyze", "systemd", "security", "--no-pager", "--offline=true",
		"--threshold=20", filepath.Join(deployed, "systemd", "keyp.service"))
}

// TestPackagedConfiguration: the server accepts the configuration of the packages. The paths in it
// match the systemd unit and the logrotate file.
func TestPackagedConfiguration(t *testing.T) {
	cfg, err := config.Load([]string{filepath.Join(deployed, "package", "keyp.conf")}, nil, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings()) > 0 {
		t.Error(cfg.Warnings())
	}
	unit, rotation := deployedFile(t, "systemd/keyp.service"), deployedFile(t, "package/logrotate")
	for option, directory := range map[string]string{"dir": "StateDirectory /var/lib/",
		"logfile": "LogsDirectory /var/log/", "pidfile": "RuntimeDirectory /run/"} {
		setting, base, _ := strings.Cut(directory, " ")
		name := regexp.MustCompile(`(?m)^` + setting + `=(.*)$`).FindStringSubmatch(unit)
		if path := cfg.String(option); name == nil ||
			path != base+name[1] && filepath.Dir(path) != base+name[1] {
			t.Errorf("%s is %s, and the unit has %q", option, path, name)
		}
	}
	if !strings.HasPrefix(rotation, filepath.Dir(cfg.String("logfile"))+"/*.log {") ||
		!strings.Contains(rotation, `kill -HUP "$(cat `+cfg.String("pidfile")+`)"`) {
		t.Errorf("the rotation is of another log than the configuration has: %s", rotation)
	}
}

// readYAML reads a file of deploy/ into a tree of maps and lists.
func readYAML(t *testing.T, name string) map[string]any {
	t.Helper()
	var tree map[string]any
	if err := yaml.UnmarshalStrict([]byte(deployedFile(t, name)), &tree); err != nil {
		t.Fatalf("%s: %v", name, err)
	}
	return tree
}

// at returns the node that path leads to. A step of path is a map's key or a list's index.
func at(t *testing.T, tree any, path ...any) any {
	t.Helper()
	for _, step := range path {
		switch node := tree.(type) {
		case map[string]any:
			tree = node[step.(string)]
		case map[any]any:
			tree = node[step]
		case []any:
			tree = node[step.(int)]
		default:
			t.Fatalf("%v: there is no %v in %v", path, step, tree)
		}
	}
	return tree
}

// TestCompose: the services of compose.yml find each other and the files that they mount. Each
// setting of the server is an option of Keyp.
func TestCompose(t *testing.T) {
	compose := readYAML(t, "docker/compose.yml")
	for _, service := range []string{"keyp", "prometheus", "grafana"} {
		for _, volume := range at(t, compose, "services", service, "volumes").([]any) {
			source, _, _ := strings.Cut(volume.(string), ":")
			if !strings.HasPrefix(source, ".") {
				if _, found := at(t, compose, "volumes").(map[any]any)[source]; !found {
					t.Errorf("%s: there is no volume %s", service, source)
				}
			} else if _, err := os.Stat(filepath.Join(deployed, "docker", source)); err != nil {
				t.Errorf("%s: %v", service, err)
			}
		}
	}
	const password = "s3cret"
	filled := func(v any) string {
		return strings.NewReplacer("${KEYP_PASSWORD:?set KEYP_PASSWORD}", password,
			"${KEYP_PASSWORD}", password).Replace(v.(string))
	}
	var env, args []string
	for name, value := range at(t, compose, "services", "keyp", "environment").(map[any]any) {
		env = append(env, name.(string)+"="+filled(value))
	}
	for _, arg := range at(t, compose, "services", "keyp", "command").([]any) {
		args = append(args, filled(arg))
	}
	for _, line := range regexp.MustCompile(`(?m)^ENV (.*)$`).FindAllStringSubmatch(deployedFile(t,
		"docker/Dockerfile"), -1) {
		env = append(strings.Fields(line[1]), env...)
	}
	cfg, err := config.Load(args, env, nil)
	if err != nil {
		t.Fatal(err)
	}
	if len(cfg.Warnings()) > 0 || cfg.String("requirepass") != password || len(cfg.Users()) != 1 ||
		cfg.Users()[0].Words[2] != ">"+password || cfg.String("bind") != "*" {
		t.Errorf("%q %q", cfg.Warnings(), cfg.Users())
	}
	prometheus := readYAML(t, "docker/prometheus.yml")
	scrape := at(t, prometheus, "scrape_configs", 0)
	_, port, _ := strings.Cut(cfg.String("http-addr"), ":")
	if target := at(t, scrape, "static_configs", 0, "targets", 0); target != "keyp:"+port {
		t.Errorf("Prometheus asks %v", target)
	}
	if user := at(t, scrape, "basic_auth", "username"); user != cfg.Users()[0].Words[0] {
		t.Errorf("Prometheus asks as %v", user)
	}
	if file := at(t, scrape, "basic_auth", "password_file"); file != "/run/secrets/"+
		at(t, compose, "services", "prometheus", "secrets", 0).(string) {
		t.Errorf("Prometheus has its password in %v", file)
	}
	if url := at(t, readYAML(t, "docker/grafana/datasource.yml"), "datasources", 0,
		"url"); url != "http://prometheus:9090" {
		t.Errorf("Grafana asks %v", url)
	}
	readYAML(t, "docker/grafana/dashboards.yml")
	readYAML(t, "prometheus/prometheus.yml")
	readYAML(t, "prometheus/keyp.rules.yml")
}

// TestDockerfile: the Docker image contains a static program, does not run as root and has a health
// check.
func TestDockerfile(t *testing.T) {
	text := deployedFile(t, "docker/Dockerfile")
	for _, want := range []string{"CGO_ENABLED=0 ", "\nFROM scratch\n", "\nUSER 65532:65532\n",
		`CMD ["/keyp", "health"]`, "\nVOLUME /data\n", "--chown=65532:65532"} {
		if !strings.Contains(text, want) {
			t.Errorf("there is no %q", want)
		}
	}
}

// TestPackages: each file of the packages exists in the repository, or a release makes it.
func TestPackages(t *testing.T) {
	tree := readYAML(t, "package/nfpm.yaml")
	for _, entry := range at(t, tree, "contents").([]any) {
		source := at(t, entry, "src").(string)
		if made, found := strings.CutPrefix(source, "${STAGE}/"); found {
			if !strings.Contains(
				"keyp keyp.1 completion/keyp.bash completion/_keyp completion/keyp.fish", made) ||
				at(t, entry, "expand") != true {
				t.Errorf("a release has no %s", made)
			}
		} else if _, err := os.Stat(filepath.Join("../..", source)); err != nil {
			t.Error(err)
		}
	}
	for _, script := range at(t, tree, "scripts").(map[any]any) {
		tool(t, "sh", "any", "-n", filepath.Join("../..", script.(string)))
	}
}
