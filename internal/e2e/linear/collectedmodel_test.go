package linear

import (
	"testing"

	"github.com/anishathalye/porcupine"
)

// TestCollectionModel: the model of collections accepts right replies, and refuses similar wrong
// ones.
func TestCollectionModel(t *testing.T) {
	type step struct {
		verb, data string
		n          int64
		reply      any
		wrong      any // what is refused in its place
	}
	for kind, steps := range [len(collectionVerbs)][]step{
		{
			{"HSET", "b", 5, int64(1), int64(0)}, {"HINCRBY", "b", 2, int64(7), int64(2)},
			{"HINCRBY", "a", 3, int64(3), int64(5)},
			{"HGETALL", "", 0, "a=3,b=7", "a=3,b=5"}, {"HDEL", "b", 0, int64(1), int64(0)},
			{"HGETALL", "", 0, "a=3", "a=3,b=7"}, {"DEL", "", 0, int64(1), int64(0)},
		},
		{
			{"RPUSH", "", 1, int64(1), int64(2)}, {"LPUSH", "", 2, int64(2), int64(1)},
			{"RPUSH", "", 3, int64(3), int64(2)}, {"LRANGE", "", 0, "2,1,3", "1,2,3"},
			{"LPOP", "", 0, "2", "1"}, {"RPOP", "", 0, "3", "2"}, {"LTRIM", "", 0, "OK", nil},
			{"LRANGE", "", 0, "1", ""}, {"LPOP", "", 0, "1", nil}, {"LPOP", "", 0, nil, "1"},
		},
		{
			{"SADD", "b", 0, int64(1), int64(0)}, {"SADD", "a", 0, int64(1), int64(0)},
			{"SADD", "a", 0, int64(0), int64(1)}, {"SMEMBERS", "", 0, "a,b", "a"},
			{"SREM", "b", 0, int64(1), int64(0)}, {"SCARD", "", 0, int64(1), int64(2)},
			{"DEL", "", 0, int64(1), int64(0)}, {"SMEMBERS", "", 0, "", "a"},
		},
		{
			{"ZADD", "b", 5, int64(1), int64(0)}, {"ZINCRBY", "a", 5, "5", "10"},
			{"ZINCRBY", "c", 2, "2", "5"}, {"ZRANGE", "", 0, "a=5,b=5,c=2", "a=5,b=5"},
			{"ZPOPMIN", "", 0, "c=2", "a=5"}, {"ZPOPMIN", "", 0, "a=5", "b=5"},
			{"ZREM", "b", 0, int64(1), int64(0)}, {"ZPOPMIN", "", 0, "", "b=5"},
		},
	} {
		key := kind % groupKeys
		group := (kind - key + len(collectionVerbs)) % len(collectionVerbs)
		if kindOf(group, key) != kind {
			t.Fatalf("group %d has no key of kind %d", group, kind)
		}
		for wrong := -1; wrong < len(steps); wrong++ {
			var history []porcupine.Operation
			for i, s := range steps {
				reply := s.reply
				if i == wrong {
					reply = s.wrong
				}
				history = append(history, porcupine.Operation{
					Input: call{group: group,
						commands: []command{{verb: s.verb, key: key, data: s.data, ttl: s.n}}},
					Output: outcome{replies: []any{reply}}, Call: int64(2 * i),
					Return: int64(2*i + 1),
				})
			}
			if got := porcupine.CheckOperations(collectionModel, history); got != (wrong < 0) {
				t.Errorf("kind %d, with a wrong reply at %d: explained is %t", kind, wrong, got)
			}
		}
	}
}
