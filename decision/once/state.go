package once

import (
	"bytes"
	"cmp"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"slices"
)

// stateVersion is the version of the saved form.
const stateVersion = 1

// state is a Filter as it is saved:
//
//	{"version":1,"queues":[{"id":"6f0c...","seq":1200,"late":[17,18]}]}
//
// The queues stand in the order in which they were heard of last, so that equal
// histories are equal bytes and the bound on their number survives.
type state struct {
	Version int          `json:"version"`
	Queues  []queueState `json:"queues"`
}

type queueState struct {
	ID   string   `json:"id"`
	Seq  uint64   `json:"seq"`
	Late []uint64 `json:"late,omitempty"`
}

// MarshalJSON implements json.Marshaler: what f has seen, for UnmarshalJSON to
// read. Filters that have taken the same deliveries, with the same LateMemory and
// MaxQueues, give the same bytes. It does not fail.
func (f Filter) MarshalJSON() ([]byte, error) {
	s := state{Version: stateVersion, Queues: make([]queueState, 0, len(f.queues))}
	ids := slices.SortedFunc(maps.Keys(f.queues), func(a, b string) int {
		return cmp.Compare(f.queues[a].used, f.queues[b].used)
	})
	for _, id := range ids {
		q := f.queues[id]
		s.Queues = append(s.Queues, queueState{ID: id, Seq: q.highest, Late: q.late})
	}
	return json.Marshal(s)
}

// UnmarshalJSON implements json.Unmarshaler: it sets f to what was saved and forgets
// what f has seen before, LateMemory and MaxQueues excepted. After an error f is as it
// was. An unknown member is an error, because a wrong Filter drops records.
func (f *Filter) UnmarshalJSON(text []byte) error {
	s, err := parseState(text)
	if err != nil {
		return fmt.Errorf("read the state of a filter: %w", err)
	}
	restored := Filter{LateMemory: f.LateMemory, MaxQueues: f.MaxQueues, queues: make(map[string]*seen, len(s.Queues))}
	for i, q := range s.Queues {
		if !isUUID(q.ID) {
			return fmt.Errorf("read the state of a filter: queues[%d].id is %s, want a UUID", i, excerpt(q.ID))
		}
		if restored.queues[q.ID] != nil {
			return fmt.Errorf("read the state of a filter: queue %s occurs twice", q.ID)
		}
		restored.now++
		restored.queues[q.ID] = &seen{highest: q.Seq, late: q.Late, used: restored.now}
	}
	*f = restored
	return nil
}

func parseState(text []byte) (state, error) {
	// The version comes first: with another one, nothing else need make sense.
	var head struct {
		Version *int `json:"version"`
	}
	if err := json.Unmarshal(text, &head); err != nil {
		return state{}, err
	}
	if head.Version == nil {
		return state{}, errors.New("the version is missing")
	}
	if *head.Version != stateVersion {
		return state{}, fmt.Errorf("version %d is not supported, only version %d: use the program that saved the state, or a newer one", *head.Version, stateVersion)
	}
	var s state
	d := json.NewDecoder(bytes.NewReader(text))
	d.DisallowUnknownFields()
	if err := d.Decode(&s); err != nil {
		return state{}, err
	}
	if s.Queues == nil {
		return state{}, errors.New("the queues are missing")
	}
	return s, nil
}
