package commands

import "testing"

// The commands by which clients detect a cluster reply that there is none.
func TestNoCluster(t *testing.T) {
	newHarness(t).run(`
		CLUSTER INFO -> -ERR This instance has cluster support disabled
		CLUSTER slots -> -ERR This instance has cluster support disabled
		CLUSTER SHARDS -> -ERR This instance has cluster support disabled
		CLUSTER KEYSLOT k -> -ERR This instance has cluster support disabled
		CLUSTER GETKEYSINSLOT 1 10 -> -ERR This instance has cluster support disabled
		CLUSTER HELP -> -ERR This instance has cluster support disabled
		READONLY -> -ERR This instance has cluster support disabled
		READWRITE -> -ERR This instance has cluster support disabled
		ASKING -> -ERR This instance has cluster support disabled
		CLUSTER -> -ERR wrong number of arguments for 'cluster' command
		CLUSTER KEYSLOT -> -ERR wrong number of arguments for 'cluster|keyslot' command
		READONLY x -> -ERR wrong number of arguments for 'readonly' command
		CLUSTER FOO -> -ERR unknown subcommand 'FOO'. Try CLUSTER HELP.
	`)
}
