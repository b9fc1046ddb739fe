package deadlettercmd

import (
	"context"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"net"
	"path/filepath"
	"slices"
	"syscall"
	"time"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/deadletter"
	"github.com/docket-export/docket/exporter/queue"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/internal/rooted"
)

// letterChange is what can be done to dead letters, in the words of the admin
// endpoint.
type letterChange string

const (
	redrive letterChange = "redrive"
	purge   letterChange = "purge"
)

// letterBox is where the dead letters of a queue are reached: through the docket that
// runs on it, or on the disk.
type letterBox interface {
	// counts has every sink that there is.
	counts(ctx context.Context) ([]deadletter.Count, error)
	// list calls each with the letters of a sink, in the order of seq.
	list(ctx context.Context, sink string, each func(deadletter.Summary) error) error
	show(ctx context.Context, sink, id string) (deadletter.Summary, []byte, error)
	change(ctx context.Context, sink string, what letterChange, c deadletter.Change) (deadletter.Changed, error)
	// hint is what else there is to say of a sink that is not there.
	hint(sink string) string
	// running says whether a docket is at work that sees the changes.
	running() bool
	Close() error
}

// open finds the docket that runs on the queue or, when there is none, the queue.
func (f *letterFlags) open(ctx context.Context, log *slog.Logger) (letterBox, error) {
	if f.admin == "" && f.tokenFile != "" {
		return nil, errors.New("--token-file needs --admin: over the socket of the queue no token is asked for")
	}
	if f.admin != "" {
		return f.openAddress()
	}
	cfg, err := f.Load()
	if err != nil {
		return nil, err
	}
	socket := filepath.Join(cfg.Queue.Directory, exporter.AdminSocket)
	reason := tryAdminSocket(ctx, socket)
	if reason == nil {
		return newSocketBox(socket, cfg.Queue.Directory), nil
	}
	if errors.Is(reason, fs.ErrPermission) {
		return nil, command.Failed(fmt.Errorf("admin socket: %w: only the user that docket runs as may use it", reason))
	}
	o, err := inspect.Open(cfg.Queue.Directory, nil)
	if inUse, ok := errors.AsType[*queue.InUseError](err); ok {
		return nil, command.Failed(fmt.Errorf("queue %s is in use by %s, which cannot be reached over its admin socket (%w): try again if it has just "+
			"begun or is ending; or ask it with --admin and --token-file over its admin.address; or stop it first",
			cfg.Queue.Directory, terminal.Process(inUse.PID), reason))
	}
	if errors.Is(err, inspect.ErrNoQueue) {
		return nil, command.Misconfigured("%w", err)
	}
	if err != nil {
		return nil, command.Failed(err)
	}
	return &offlineBox{cfg: cfg, o: o, log: log}, nil
}

// openAddress is open with --admin.
func (f *letterFlags) openAddress() (letterBox, error) {
	token := config.SecretFile(f.tokenFile)
	if token == "" && f.File != "" {
		cfg, err := f.Load()
		if err != nil {
			return nil, err
		}
		token = cfg.Admin.TokenFile
	}
	if token == "" {
		return nil, errors.New("--admin needs --token-file, or -f with a configuration that has admin.tokenFile: over an address dead letters are served to those who know the token")
	}
	secret, err := token.Read()
	if err != nil {
		return nil, command.Failed(err)
	}
	return newAddressBox(f.admin, secret), nil
}

// tryAdminSocket says why nobody answers at the admin socket of a queue.
func tryAdminSocket(ctx context.Context, path string) error {
	ctx, cancel := context.WithTimeout(ctx, 5*time.Second)
	defer cancel()
	nc, err := new(net.Dialer).DialContext(ctx, "unix", path)
	if errors.Is(err, syscall.EINVAL) {
		return fmt.Errorf("%s: the path is too long for a socket", path)
	}
	if err != nil {
		return err
	}
	return nc.Close()
}

// offlineBox works on the files of a queue, which it holds.
type offlineBox struct {
	cfg *exporter.Config
	o   *inspect.Queue
	log *slog.Logger
}

func (b *offlineBox) running() bool { return false }

func (b *offlineBox) hint(string) string { return "" }

func (b *offlineBox) Close() error { return b.o.Close() }

// open opens the dead letters of a sink.
func (b *offlineBox) open(sink string, readOnly bool) (*deadletter.Store, error) {
	o := deadletter.Options{ReadOnly: readOnly, Log: b.log}
	for _, s := range b.cfg.Sinks {
		if s.Name == sink {
			o.MaxBytes = int64(s.DeadLetters.MaxBytes)
		}
	}
	return deadletter.Open(b.directory(sink), o)
}

func (b *offlineBox) directory(sink string) string {
	return filepath.Join(b.cfg.Queue.Directory, exporter.DeadLettersDirectory, sink)
}

// look calls do with the dead letters of a sink, to be read.
func (b *offlineBox) look(sink string, do func(*deadletter.Store) error) error {
	s, err := b.open(sink, true)
	if err != nil {
		return err
	}
	return errors.Join(do(s), s.Close())
}

// sinks are those that are configured, and those that have dead letters although
// they are not.
func (b *offlineBox) sinks() ([]string, error) {
	var names []string
	for _, s := range b.cfg.Sinks {
		names = append(names, s.Name)
	}
	entries, err := rooted.At(b.cfg.Queue.Directory).Join(exporter.DeadLettersDirectory).ReadDir()
	if err != nil && !errors.Is(err, fs.ErrNotExist) {
		return nil, err
	}
	for _, e := range entries {
		if e.IsDir() && !slices.Contains(names, e.Name()) {
			names = append(names, e.Name())
		}
	}
	return names, nil
}

func (b *offlineBox) counts(context.Context) ([]deadletter.Count, error) {
	names, err := b.sinks()
	if err != nil {
		return nil, err
	}
	counts := []deadletter.Count{}
	for _, name := range names {
		err := b.look(name, func(s *deadletter.Store) error {
			counts = append(counts, s.Stats().Count(name))
			return nil
		})
		if err != nil {
			return nil, err
		}
	}
	return counts, nil
}

func (b *offlineBox) list(ctx context.Context, sink string, each func(deadletter.Summary) error) error {
	const atATime = 256
	return b.look(sink, func(s *deadletter.Store) error {
		for after := uint64(0); ctx.Err() == nil; {
			page, err := s.Page(after, atATime)
			if err != nil || len(page) == 0 {
				return err
			}
			for _, l := range page {
				if err := each(l.Summary(b.o.ID(), sink)); err != nil {
					return err
				}
			}
			after = page[len(page)-1].Seq
		}
		return context.Cause(ctx)
	})
}

func (b *offlineBox) show(_ context.Context, sink, id string) (summary deadletter.Summary, record []byte, err error) {
	seq, err := deadletter.ParseID(b.o.ID(), id)
	if err != nil {
		return summary, nil, err
	}
	err = b.look(sink, func(s *deadletter.Store) error {
		l, found, err := s.Get(seq)
		if err == nil && !found {
			err = fmt.Errorf("sink %s has no dead letter %s", sink, id)
		}
		summary, record = l.Summary(b.o.ID(), sink), l.Record
		return err
	})
	return summary, record, err
}

func (b *offlineBox) change(_ context.Context, sink string, what letterChange, c deadletter.Change) (changed deadletter.Changed, err error) {
	var seqs []uint64
	for _, id := range c.IDs {
		seq, err := deadletter.ParseID(b.o.ID(), id)
		if err != nil {
			return changed, err
		}
		seqs = append(seqs, seq)
	}
	s, err := b.open(sink, false)
	if err != nil {
		return changed, err
	}
	for i, seq := range seqs {
		if !s.Has(seq) {
			changed.Unknown = append(changed.Unknown, c.IDs[i])
		}
	}
	// Before the change as well: it takes the lock of a queue that has none yet.
	err = b.settle(sink, s)
	if err == nil {
		do := s.Redrive
		if what == purge {
			do = s.Remove
		}
		changed.Count, err = do(seqs)
	}
	if err == nil {
		err = b.settle(sink, s)
	}
	return changed, errors.Join(err, s.Close())
}

// settle makes the account of the sink say what there is.
func (b *offlineBox) settle(sink string, s *deadletter.Store) error {
	return b.o.CountSetAside(sink, func(next uint64) (kept, redriving uint64) { return s.Counts(0, next) })
}
