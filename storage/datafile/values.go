package datafile

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"

	bolt "go.etcd.io/bbolt"

	"keyp/storage/format"
	"keyp/storage/object"
)

// ReadValue returns the value of a key, whose record in the bucket values is m. Elements that are
// not within the record are read from the data file.
func ReadValue(tx *bolt.Tx, m *format.Image) (object.Value, error) {
	if !m.Inline {
		v, err := readElements(tx, m.Type, m.ID)
		if err == nil && !m.Partial {
			err = m.CheckWhole(v)
		}
		return v, err
	}
	v := object.New(m.Type)
	if s, ok := v.(*object.String); ok {
		s.Data = append([]byte(nil), m.Payload...)
		return v, nil
	}
	return v, format.EachInline(m.Payload, v.Put)
}

// ReadLive reports whether an image's key exists at an instant, in Unix milliseconds.
func ReadLive(tx *bolt.Tx, m *format.Image, now int64) (bool, error) {
	if m.Deadline != 0 && m.Deadline <= now {
		return false, nil
	}
	if m.First == 0 || m.First > now {
		return true, nil
	}
	alive := false
	see := func(_, _ []byte, deadline int64) error {
		if alive = deadline == 0 || deadline > now; alive {
			return ErrEnough
		}
		return nil
	}
	var err error
	if m.Inline {
		err = format.EachInline(m.Payload, see)
	} else {
		err = EachElement(tx, m.ID, nil, see)
	}
	if alive {
		err = nil
	}
	return alive, err
}

// ErrEnough ends a walk without an error.
var ErrEnough = errors.New("enough")

// readElements reads a value from its elements, which are stored under its id.
func readElements(tx *bolt.Tx, typ object.Type, id uint64) (object.Value, error) {
	v := object.New(typ)
	if err := EachElement(tx, id, nil, v.Put); err != nil {
		return nil, BadElement(id, err)
	}
	return v, nil
}

// BadElement returns the error of reading the elements of a value.
func BadElement(id uint64, err error) error {
	return fmt.Errorf("%w: elements of value %d: %w", format.ErrCorrupt, id, err)
}

// EachElement visits the elements under an id, beginning at from (nil: the first), until fn returns
// an error. It returns that error, or nil if it is ErrEnough.
func EachElement(tx *bolt.Tx, id uint64, from []byte,
	fn func(elem, val []byte, deadline int64) error) error {
	prefix := binary.BigEndian.AppendUint64(nil, id)
	err := Each(tx, format.BucketElements, format.ElementKey(nil, id, from), nil,
		func(k, rec []byte) error {
			if !bytes.HasPrefix(k, prefix) {
				return ErrEnough
			}
			elem, deadline, val, err := format.ParseElement(k, rec)
			if err == nil {
				err = fn(elem, val, deadline)
			}
			return err
		})
	if err == ErrEnough {
		return nil
	}
	return err
}
