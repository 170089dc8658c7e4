package web

import (
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"os/exec"
	"path/filepath"
	"regexp"
	"slices"
	"strings"
	"testing"

	"keyp/internal/testkit"
)

var updatePage = flag.Bool("update", false,
	"write the generated part of the page again instead of comparing it")

const (
	metricsPage   = "../docs/reference/metrics.md"
	updateHow     = "go test ./web -run TestMonitoringPage -update"
	generatedMark = "<!-- From here on generated: " + updateHow + " -->\n"
	alertRules    = "../deploy/prometheus/keyp.rules.yml"
	dashboard     = "../deploy/grafana/keyp.json"
)

// TestMonitoringPage: docs/reference/metrics.md has every metric, with the description from the
// code.
func TestMonitoringPage(t *testing.T) {
	have, err := os.ReadFile(metricsPage)
	if err != nil {
		t.Fatal(err)
	}
	head, _, found := strings.Cut(string(have), generatedMark)
	if !found {
		t.Fatalf("%s has no line %q", metricsPage, generatedMark)
	}
	var b strings.Builder
	b.WriteString(head + generatedMark +
		"\n| metric | type | labels | meaning |\n|---|---|---|---|\n")
	for _, m := range metrics {
		labels := ""
		if m.labels != "" {
			labels = "`" + strings.ReplaceAll(m.labels, " ", "`, `") + "`"
		}
		fmt.Fprintf(&b, "| `%s` | %s | %s | %s |\n", m.name, m.kind, labels, m.help)
	}
	switch {
	case b.String() == string(have):
	case !*updatePage:
		t.Fatalf("%s is not what the table of metrics says; run %s", metricsPage, updateHow)
	default:
		if err := os.WriteFile(metricsPage, []byte(b.String()), 0o644); err != nil {
			t.Fatal(err)
		}
	}
}

// promtool runs Prometheus's tool on a text. If it is not installed, promtool does nothing.
func promtool(t *testing.T, text string, args ...string) {
	t.Helper()
	path, found := testkit.FindTool("promtool")
	if !found {
		t.Logf("SKIPPED: promtool (Debian's package prometheus) is not installed, so it does not check %s",
			strings.Join(args, " "))
		return
	}
	cmd := exec.CommandContext(t.Context(), path, args...)
	cmd.Stdin = strings.NewReader(text)
	if out, err := cmd.CombinedOutput(); err != nil || strings.Contains(string(out), "FAILED") ||
		args[1] == "metrics" && len(out) > 0 {
		t.Errorf("promtool %s: %v\n%s", strings.Join(args, " "), err, out)
	}
}

// expressions returns the PromQL expressions of the dashboard's panels and variables.
func expressions(t *testing.T) (list []string) {
	t.Helper()
	text, err := os.ReadFile(dashboard)
	if err != nil {
		t.Fatal(err)
	}
	var board any
	if err := json.Unmarshal(text, &board); err != nil {
		t.Fatalf("%s: %v", dashboard, err)
	}
	var walk func(any)
	walk = func(v any) {
		switch v := v.(type) {
		case map[string]any:
			for name, value := range v {
				if text, ok := value.(string); ok && name == "expr" {
					list = append(list, text)
				}
				walk(value)
			}
		case []any:
			for _, value := range v {
				walk(value)
			}
		}
	}
	walk(board)
	slices.Sort(list)
	return list
}

// TestDeploy: the rules and the dashboard use only existing metrics and labels, and promtool
// accepts all their expressions.
func TestDeploy(t *testing.T) {
	rules, err := os.ReadFile(alertRules)
	if err != nil {
		t.Fatal(err)
	}
	panels := expressions(t)
	alerts := regexp.MustCompile(`(?m)^\s+- alert:`).FindAllString(string(rules), -1)
	if len(panels) < 20 || len(alerts) < 8 {
		t.Errorf("%d expressions in the dashboard, %d alerts", len(panels), len(alerts))
	}
	used := regexp.MustCompile(`\bkeyp_[a-z0-9_]+(\{[^}]*\})?`)
	for _, expr := range append(panels, string(rules)) {
		for _, use := range used.FindAllString(expr, -1) {
			if problem := unknownMetric(use); problem != "" {
				t.Errorf("%s in %.200s", problem, expr)
			}
		}
	}
	promtool(t, "", "check", "rules", alertRules)
	// promtool checks only rules, so the dashboard's expressions are turned into rules.
	var b strings.Builder
	b.WriteString("groups:\n- name: dashboard\n  rules:\n")
	for i, expr := range panels {
		plain := strings.NewReplacer("$__rate_interval", "5m", "$__range", "1h", "$__interval",
			"1m").Replace(expr)
		fmt.Fprintf(&b, "  - record: panel_%d\n    expr: %q\n", i, plain)
	}
	path := filepath.Join(t.TempDir(), "dashboard.yml")
	if err := os.WriteFile(path, []byte(b.String()), 0o600); err != nil {
		t.Fatal(err)
	}
	promtool(t, "", "check", "rules", path)
}

// TestUnknownMetric: unknownMetric finds wrong uses.
func TestUnknownMetric(t *testing.T) {
	for use, known := range map[string]bool{
		"keyp_keys": true, `keyp_keys{db="0",job="x"}`: true,
		`keyp_command_duration_seconds_bucket{command="get"}`: true,
		"keyp_command_duration_seconds_sum":                   true,
		"keyp_nothing":                                        false, "keyp_keys_bucket": false,
		"keyp_command_duration_seconds": false,
		`keyp_keys{type="list"}`:        false,
	} {
		if got := unknownMetric(use); (got == "") != known {
			t.Errorf("%s: %q", use, got)
		}
	}
}

// unknownMetric returns what is wrong with the use of a metric, such as keyp_keys{db="0"}.
func unknownMetric(use string) string {
	name, selector, _ := strings.Cut(use, "{")
	i := slices.IndexFunc(metrics, func(m metric) bool {
		if m.kind != buckets {
			return name == m.name
		}
		return slices.Contains([]string{m.name + "_bucket", m.name + "_sum", m.name + "_count"},
			name)
	})
	if i < 0 {
		return "no metric " + name
	}
	for _, match := range regexp.MustCompile(`([a-z_]+)\s*(=|!)`).FindAllStringSubmatch(selector,
		-1) {
		label := match[1]
		if !slices.Contains(strings.Fields(metrics[i].labels+" job instance le"), label) {
			return name + " has no label " + label
		}
	}
	return ""
}

// TestTable: each metric is read in exactly one way, and its name follows the rules of Prometheus.
func TestTable(t *testing.T) {
	seen := map[string]bool{}
	for _, m := range metrics {
		ways := 0
		for _, is := range []bool{m.value != nil, m.values != nil, m.spread != nil} {
			if is {
				ways++
			}
		}
		if ways != 1 || (m.kind == buckets) != (m.spread != nil) ||
			(m.value != nil) != (m.labels == "") && m.kind != buckets && !ofGroups(&m) {
			t.Errorf("%s: read in %d ways", m.name, ways)
		}
		if seen[m.name] || !strings.HasPrefix(m.name, "keyp_") || strings.HasSuffix(m.name,
			"_total") != (m.kind == counter) || !strings.HasSuffix(m.help, ".") {
			t.Errorf("%s: twice, or not named by its type, or no sentence", m.name)
		}
		seen[m.name] = true
	}
}
