package runs

import (
	"errors"
	"fmt"
	"net/url"

	"github.com/docket-export/docket/decision"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources/delta"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
	"github.com/docket-export/docket/sources/statefile"
)

// changes are those from one run of a channel to the next.
type changes struct {
	tracker *delta.Tracker
	r       *Reader
	channel string
}

// channelChanges is the state of a channel. One is in memory at a time.
func (r *Reader) channelChanges(channel string) (*changes, error) {
	if r.changes == nil || r.changes.channel != channel {
		r.closeChanges()
		var err error
		if r.changes, err = r.openChanges(channel); err != nil {
			return nil, err
		}
	}
	return r.changes, nil
}

func (r *Reader) closeChanges() {
	if r.changes != nil {
		r.changes.tracker.Close()
		r.changes = nil
	}
}

// noteLost notes that the state of a channel is lost. It must be durable before a run is
// begun: what runs give has other numbers from now on.
func (c *changes) noteLost() {
	c.r.files.SetChannel(c.channel, func(st *inventory.Channel) { st.HasDelta, st.DeltaLost = false, st.DeltaLost+1 })
}

// openChanges opens the state of a channel. That it was lost is noted first.
func (r *Reader) openChanges(channel string) (*changes, error) {
	path := deltaPath(r.Env.StateDir, url.PathEscape(channel))
	there, err := path.Exists()
	lost := err == nil && !there && r.files.Channel(channel).HasDelta
	tracker, err := delta.Open(path, r.SnapshotInterval)
	if damaged, ok := errors.AsType[*statefile.DamagedError](err); ok {
		lost = true
		r.Env.Log.Error("the standing violations of the last audit are lost: docket reports every violation as opened again", "error", damaged)
	} else if err != nil {
		return nil, err
	}
	tracker.MaxRecordBytes = r.Env.MaxRecordBytes
	c := &changes{tracker: tracker, r: r, channel: channel}
	if lost {
		c.noteLost()
	}
	if err := r.files.Save(); err != nil {
		return nil, err
	}
	return c, nil
}

// deltaRun is one run of them.
type deltaRun struct {
	*changes
	run     *delta.Run
	lines   []byte // scratch
	trouble string
}

func (c *changes) begin(id string) *deltaRun {
	return &deltaRun{changes: c, run: c.tracker.Begin(id)}
}

// observe returns what is to be sent for a violation, valid until the next call.
func (d *deltaRun) observe(text []byte) ([]byte, error) {
	lines, _, err := d.run.Observe(d.lines[:0], text)
	d.lines = lines
	if err != nil { // the violation is sent as it came
		d.trouble = err.Error()
	}
	return lines, nil
}

// end sends what is resolved, and completes the run record.
func (d *deltaRun) end(out *outbox, run *decision.Run) error {
	var sendErr error
	result, err := d.run.End(run.Complete, func(lines []byte, _ int) error {
		sendErr = out.addLines(lines)
		return sendErr
	})
	if sendErr != nil {
		return sendErr
	}
	if err != nil {
		return d.failed(err)
	}
	run.Opened, run.Resolved, run.Snapshot = &result.Opened, &result.Resolved, result.Snapshot
	d.r.Failures.Set("delta/"+d.channel, d.trouble)
	return nil
}

// commit makes the state after the run durable.
func (d *deltaRun) commit() error {
	if err := d.run.Commit(); err != nil {
		return d.failed(err)
	}
	return nil
}

// failed gives up what is held of the state: the run is read again with what is on disk,
// which may have been damaged since it was opened.
func (d *deltaRun) failed(err error) error {
	d.r.closeChanges()
	return &fileError{fmt.Errorf("changes since the last audit: %w", err)}
}

// Check reports a state of the changes of a version that is not read.
func Check(stateDir disk.Path) error {
	channels, _ := deltaDir(stateDir).Rooted().ReadDir() // what cannot be listed is reported when it is opened
	for _, channel := range channels {
		if err := delta.Check(deltaPath(stateDir, channel.Name())); err != nil {
			return err
		}
	}
	return nil
}

func deltaDir(stateDir disk.Path) disk.Path { return stateDir.Join("delta") }

// deltaPath is where the changes of a channel are, whose name is escaped.
func deltaPath(stateDir disk.Path, channel string) disk.Path {
	return deltaDir(stateDir).Join(channel, "standing.ndjson")
}
