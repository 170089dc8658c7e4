package config

import "strings"

// passedOver are directives of other versions of Redis, and of Valkey, that only tune parts that
// Keyp does not have. In a file they may have any values. CONFIG GET and CONFIG SET do not know
// them.
var passedOver = wordSet(`
	glueoutputbuf hash-max-zipmap-entries hash-max-zipmap-value really-use-vm
	vm-enabled vm-max-memory vm-max-threads vm-page-size vm-pages vm-swap-file
	list-max-ziplist-entries list-max-ziplist-value lua-replicate-commands gopher-enabled

	client-default-resp key-load-delay rdb-key-save-delay loading-process-events-interval-bytes
	use-exit-on-panic req-res-logfile watchdog-period cluster-ping-interval

	repl-rdb-channel replica-full-sync-buffer-limit lookahead cluster-compatibility-sample-ratio
	cluster-slot-stats-enabled cluster-slot-migration-handoff-max-lag-bytes
	cluster-slot-migration-write-pause-timeout cluster-slot-migration-sync-buffer-drain-timeout
	key-memory-histograms vset-force-single-threaded-execution lazyexpire-nested-arbitrary-keys
	stream-idmp-duration stream-idmp-maxsize

	primaryauth primaryuser availability-zone cluster-announce-client-ipv4 cluster-announce-client-ipv6
	cluster-blacklist-ttl cluster-config-save-behavior cluster-databases cluster-manual-failover-timeout
	cluster-message-gossip-perc cluster-slot-migration-log-max-len slot-migration-max-failover-repl-bytes
	active-defrag-cycle-us commandlog-execution-slower-than commandlog-large-reply-max-len
	commandlog-large-request-max-len commandlog-reply-larger-than commandlog-request-larger-than
	commandlog-slow-execution-max-len debug-context dual-channel-replication-enabled enable-debug-assert
	events-per-io-thread extended-redis-compatibility hash-seed import-mode io-threads-always-active
	log-timestamp-format min-io-threads-avoid-copy-reply min-string-size-avoid-copy-reply
	min-io-threads-value-prefetch-off mptcp prefetch-batch-max-size rdb-version-check rdma-bind rdma-port
	rdma-completion-vector rdma-rx-size repl-mptcp repl-diskless-load-flush tls-auto-reload-interval
`)

func wordSet(text string) map[string]bool {
	set := map[string]bool{}
	for _, word := range strings.Fields(text) {
		set[word] = true
	}
	return set
}

// Rename is a command that clients call by another name, or cannot call if New is empty. At is the
// place of the line or option: FILE:LINE: OPTION, or --OPTION.
type Rename struct{ Old, New, At string }

// Renames returns the lines "rename-command OLD NEW", in their order. It is not checked whether the
// commands exist.
func (c *Config) Renames() []Rename { return c.renames }

func (c *Config) rename(words []string) error {
	if len(words) != 2 || words[0] == "" {
		return errWords
	}
	c.renames = append(c.renames, Rename{words[0], words[1], c.at})
	return nil
}
