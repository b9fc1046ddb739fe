package exporter

import (
	"slices"
	"strings"

	"github.com/docket-export/docket/config"
)

// Change is what a reload does to one part of the configuration.
type Change struct {
	Action Action `json:"action"`
	// Part is "source", "sink", or a section of the file such as "queue".
	Part string `json:"part"`
	Name string `json:"name,omitempty"` // of a source or sink
	// Keys are the keys whose values differ.
	Keys []string `json:"keys,omitempty"`
}

// Action says what a reload does.
type Action string

// The actions of a reload.
const (
	Keep    Action = "Keep"    // nothing: the part is unchanged
	Add     Action = "Add"     // it begins
	Modify  Action = "Change"  // it ends cleanly, and starts again; a section takes effect
	Remove  Action = "Remove"  // a source ends; a sink gets the records stored so far, and ends
	LetGo   Action = "Retire"  // the sink ends, and its undelivered records are dropped
	Restart Action = "Restart" // nothing until docket restarts
)

// liveKeys are those outside of sources and sinks that take effect at a reload.
var liveKeys = []string{"queue.maxBytes", "queue.whenFull", "queue.minFreeBytes", "queue.retain", "metrics", "shutdown.drainTimeout"}

func isLive(key string) bool {
	return slices.ContainsFunc(liveKeys, func(live string) bool { return key == live || strings.HasPrefix(key, live+".") })
}

// inForce is what becomes of c where before is in force: its keys that are not live stay.
func (c *Config) inForce(before *Config) *Config {
	now := *before
	now.Sources, now.Sinks, now.Metrics, now.Shutdown = c.Sources, c.Sinks, c.Metrics, c.Shutdown
	now.Queue.MaxBytes, now.Queue.WhenFull = c.Queue.MaxBytes, c.Queue.WhenFull
	now.Queue.MinFreeBytes, now.Queue.Retain = c.Queue.MinFreeBytes, c.Queue.Retain
	return &now
}

// Changes lists what a reload from before to after does. Sources and sinks come first, in the order of
// the file and with the unchanged ones; then the changes in the other sections.
func Changes(before, after *Config) (list []Change, err error) {
	for _, part := range []struct {
		name          string
		before, after []namedEntry
	}{
		{"source", before.sourceEntries(), after.sourceEntries()},
		{"sink", before.sinkEntries(), after.sinkEntries()},
	} {
		changes, err := changesOf(part.name, part.before, part.after)
		if err != nil {
			return nil, err
		}
		list = append(list, changes...)
	}
	keys, err := config.Differences(before.sections(), after.sections())
	if err != nil {
		return nil, err
	}
	for _, key := range keys {
		section, _, _ := strings.Cut(key, ".")
		c := Change{Action: Restart, Part: section, Keys: []string{key}}
		if isLive(key) {
			c.Action = Modify
		}
		if last := len(list) - 1; last >= 0 && list[last].Part == c.Part && list[last].Action == c.Action {
			list[last].Keys = append(list[last].Keys, key)
		} else {
			list = append(list, c)
		}
	}
	return list, nil
}

// namedEntry is a source or sink as it is written.
type namedEntry struct {
	name   string
	retire bool
	entry  any
}

func (c *Config) sourceEntries() (list []namedEntry) {
	for _, s := range c.Sources {
		list = append(list, namedEntry{name: s.Name, entry: s.entry()})
	}
	return list
}

func (c *Config) sinkEntries() (list []namedEntry) {
	for _, s := range c.Sinks {
		list = append(list, namedEntry{name: s.Name, retire: s.Retire, entry: s.entry()})
	}
	return list
}

func changesOf(part string, before, after []namedEntry) (list []Change, err error) {
	find := func(in []namedEntry, name string) *namedEntry {
		if i := slices.IndexFunc(in, func(e namedEntry) bool { return e.name == name }); i >= 0 {
			return &in[i]
		}
		return nil
	}
	for _, now := range after {
		c := Change{Action: Keep, Part: part, Name: now.name}
		old := find(before, now.name)
		switch {
		case now.retire && (old == nil || !old.retire):
			c.Action = LetGo
		case now.retire:
		case old == nil || old.retire:
			c.Action = Add
		default:
			if c.Keys, err = config.Differences(old.entry, now.entry); err != nil {
				return nil, err
			}
			if len(c.Keys) > 0 {
				c.Action = Modify
			}
		}
		list = append(list, c)
	}
	for _, old := range before {
		if !old.retire && find(after, old.name) == nil {
			list = append(list, Change{Action: Remove, Part: part, Name: old.name})
		}
	}
	return list, nil
}

// waitingKeys lists the keys that wait for a restart.
func waitingKeys(changes []Change) (keys []string) {
	for _, c := range changes {
		if c.Action == Restart {
			keys = append(keys, c.Keys...)
		}
	}
	return keys
}

// equal reports whether o says the same as s. One that cannot be told is another.
func (s SourceConfig) equal(o SourceConfig) bool { return same(s.entry(), o.entry()) }

func (s SinkConfig) equal(o SinkConfig) bool { return same(s.entry(), o.entry()) }

func same(a, b any) bool {
	keys, err := config.Differences(a, b)
	return err == nil && len(keys) == 0
}

// sink returns that called name, nil when there is none.
func (c *Config) sink(name string) *SinkConfig {
	if i := slices.IndexFunc(c.Sinks, func(s SinkConfig) bool { return s.Name == name }); i >= 0 {
		return &c.Sinks[i]
	}
	return nil
}
