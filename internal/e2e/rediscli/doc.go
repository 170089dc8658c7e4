// Package rediscli tests the server with the real redis-cli.
package rediscli
