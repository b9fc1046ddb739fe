package runs

import (
	"errors"
	"log/slog"
	"testing"
	"time"

	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/sources"
	"github.com/docket-export/docket/sources/gatekeepersource/inventory"
)

// savedFiles has one channel, and what of it is saved.
type savedFiles struct {
	Files
	channel, saved inventory.Channel
	err            error
}

func (f *savedFiles) Channel(string) inventory.Channel { return f.channel }

func (f *savedFiles) SetChannel(_ string, update func(*inventory.Channel)) { update(&f.channel) }

func (f *savedFiles) Save() error {
	if f.err == nil {
		f.saved = f.channel
	}
	return f.err
}

// That the state of a channel is lost is durable before a run is begun: behind a crash its lines
// would have the numbers of others.
func TestLostChangesAreNotedBeforeARun(t *testing.T) {
	files := &savedFiles{channel: inventory.Channel{HasDelta: true}, err: errors.New("no space left on device")}
	r := NewReader(Options{
		Env:              sources.Env{StateDir: disk.At(t.TempDir()), Log: slog.New(slog.DiscardHandler)},
		SnapshotInterval: time.Hour,
	}, files, nil)
	defer r.closeChanges()
	if _, err := r.channelChanges("audit"); !errors.Is(err, files.err) {
		t.Fatalf("got error %v while nothing can be saved, want %v", err, files.err)
	}
	files.err = nil
	if _, err := r.channelChanges("audit"); err != nil || files.saved.DeltaLost == 0 || files.saved.HasDelta {
		t.Errorf("got error %v and %+v saved, want it to say that the changes are lost", err, files.saved)
	}
}
