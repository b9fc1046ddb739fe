// Package sendcmd has docket send.
package sendcmd

import (
	"cmp"
	"context"
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"sync/atomic"
	"time"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/lines"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/client"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/decision/stream"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/sources"
)

// New returns docket send.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "send [FILE]",
		Short: "Send lines of JSON, and wait until each is stored",
		Long: `send streams FILE, or the standard input, to a running docket: one JSON object a
line. It exits 0 only when every line was acknowledged, which means that the
line is on docket's disk. It lists each refused line with its number and the
reason.

While docket is away, send keeps the lines that are not acknowledged, and goes
on when docket is back. When docket accepts no more lines, send says why. Ctrl-C
stops the sending; send then waits for outstanding acknowledgements. A second
Ctrl-C ends it at once.`,
		Example: `  docket send decisions.ndjson
  kubectl logs audit | docket send --producer audit-1
  docket send -f docket.yaml decisions.ndjson     to the first unix source of docket.yaml`,
		Args: cobra.MaximumNArgs(1),
	}
	flags := command.ConfigFlags{Kinds: kinds}
	flags.Add(cmd)
	var socket, producer string
	var timeout time.Duration
	cmd.Flags().StringVar(&socket, "socket", "", "Unix domain socket of docket")
	cmd.Flags().StringVar(&producer, "producer", "", "name of this stream of lines, stored with each record (default a random one)")
	cmd.Flags().Var(command.Duration{To: &timeout}, "timeout", "give up after this time, such as 30s (default never)")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		s, err := newSendCommand(flags, socket, producer, cmd)
		if err != nil {
			return err
		}
		in, size, err := openInput(cmd.InOrStdin(), args)
		if err != nil {
			return command.Failed(err)
		}
		defer in.Close()
		ctx := cmd.Context()
		if timeout > 0 {
			var cancel context.CancelFunc
			ctx, cancel = context.WithTimeoutCause(ctx, timeout, fmt.Errorf("gave up after %s", timeout))
			defer cancel()
		}
		return command.Failed(s.run(ctx, in, size))
	}
	return cmd
}

// openInput opens the file that args name, or the standard input. size is 0 when
// it is not known.
func openInput(stdin io.Reader, args []string) (in io.ReadCloser, size int64, err error) {
	if len(args) == 0 || args[0] == "-" {
		return io.NopCloser(stdin), 0, nil
	}
	f, err := os.Open(args[0])
	if err != nil {
		return nil, 0, err
	}
	if info, err := f.Stat(); err == nil && info.Mode().IsRegular() {
		size = info.Size()
	}
	return f, size, nil
}

// sendCommand sends one input.
type sendCommand struct {
	sender   *client.Sender
	numbers  lineNumbers
	unsent   atomic.Uint64     // lines refused here
	complete atomic.Bool       // the input was read to its end
	out      io.Writer         // the summary
	console  *terminal.Console // everything else
	hide     func()            // ends the progress
	failure  string            // why the exporter was away, as said last; the sender's callbacks own it
	back     bool              // whether that it is back is worth saying; the same
}

func newSendCommand(flags command.ConfigFlags, socket, producer string, cmd *cobra.Command) (*sendCommand, error) {
	if socket == "" {
		cfg, err := flags.Load()
		if err != nil {
			return nil, err
		}
		if socket = command.First(cfg, config.Socket); socket == "" {
			return nil, fmt.Errorf("%s has no unix source: name the socket with --socket", cmp.Or(flags.File, "the built-in configuration"))
		}
	} else if flags.File != "" {
		return nil, errors.New("--socket and --file exclude each other: the file names the socket")
	}
	absolute, err := filepath.Abs(socket)
	if err != nil {
		return nil, fmt.Errorf("socket %s: %w", socket, err)
	}
	s := &sendCommand{out: cmd.OutOrStdout(), console: terminal.NewConsole(cmd.ErrOrStderr())}
	s.sender, err = client.NewSender(client.SenderConfig{
		Address:          "unix://" + absolute,
		Producer:         producer,
		MaxInFlightBytes: lines.Max + 64<<10, // the longest line, and what is kept with it
		Acked:            s.acked,
		Refused:          s.refused,
		Connected:        s.connected,
		Disconnected:     s.disconnected,
	})
	return s, err
}

// run sends what there is to read in in, and returns when all of it is stored or
// refused, or ctx is done. It is nil when all is stored.
func (s *sendCommand) run(ctx context.Context, in io.Reader, size int64) error {
	p := newProgress(in, size, time.Now())
	result := make(chan error, 1)
	// When ctx is done this goroutine may be left behind in a read from a
	// terminal or a pipe: nothing but the end of the process ends such a read.
	go func() {
		err := s.sendLines(ctx, lines.NewReader(p))
		if flushErr := s.sender.Flush(ctx); err == nil {
			err = flushErr
		}
		result <- err
	}()
	s.hide = s.console.Follow(func() terminal.Work { return p.work(s.counts()) })
	err := s.wait(ctx, result)
	left := s.close(ctx)
	s.hide()
	c := s.counts()
	if _, outErr := fmt.Fprintln(s.out, p.summary(c, time.Now())); err == nil {
		err = outErr
	}
	return s.outcome(err, left, c)
}

// close ends the sender and returns how many lines are not acknowledged. After Ctrl-C
// it waits for the acknowledgements of what was sent, until a second Ctrl-C ends the
// process. SIGTERM is from a program, which may send it once and expect an end.
func (s *sendCommand) close(ctx context.Context) (left int) {
	in, waiting := command.Interrupted(ctx), s.sender.Stats().InFlightLines
	if in != nil && in.Signal == os.Interrupt && waiting > 0 {
		s.console.Say("waiting for %s, press Ctrl-C again to give up", acksText(waiting))
		defer command.LastWords(ctx, s.gaveUp)()
		deadline, ok := ctx.Deadline() // of --timeout
		ctx = context.WithoutCancel(ctx)
		if ok {
			var cancel context.CancelFunc
			ctx, cancel = context.WithDeadline(ctx, deadline)
			defer cancel()
		}
	}
	left, _ = s.sender.Close(ctx) // without a Ctrl-C it has nothing to wait for: all is handled, or ctx is done
	return left
}

// gaveUp says how far it has come.
func (s *sendCommand) gaveUp() string {
	s.hide()
	st := s.sender.Stats()
	return fmt.Sprintf("docket send: gave up: %d of %s acknowledged", st.Handled, human.Count(st.Handled+uint64(st.InFlightLines), "line"))
}

// wait waits until the result is there or ctx is done, and says what it waits for when
// nothing is acknowledged.
func (s *sendCommand) wait(ctx context.Context, result <-chan error) error {
	tick := time.NewTicker(stallTime / 10)
	defer tick.Stop()
	quiet := stall{since: time.Now()}
	for {
		select {
		case err := <-result:
			if ctx.Err() != nil && errors.Is(err, ctx.Err()) {
				return context.Cause(ctx) // both ways in the same words
			}
			return err
		case <-ctx.Done():
			return context.Cause(ctx)
		case now := <-tick.C:
			if st := s.sender.Stats(); quiet.is(st, now) {
				s.console.Say("waiting for %s: docket status says what docket waits for; press Ctrl-C to stop sending", acksText(st.InFlightLines))
			}
		}
	}
}

// outcome adds to err what it means for the lines.
func (s *sendCommand) outcome(err error, left int, c counts) error {
	switch {
	case err == nil && c.refused == 0:
		return nil
	case err == nil:
		return fmt.Errorf("%s refused", human.Count(c.refused, "line"))
	}
	if left == 0 && s.complete.Load() && c.refused == 0 && command.IsInterruption(err) {
		return nil // all is stored all the same
	}
	if left > 0 {
		err = fmt.Errorf("%w: %s not acknowledged", err, human.Count(uint64(left), "line"))
	}
	if !s.complete.Load() {
		err = fmt.Errorf("%w; the rest of the input was not sent", err)
	}
	return err
}

// sendLines sends every line. Those that cannot be sent count as refused.
func (s *sendCommand) sendLines(ctx context.Context, in *lines.Reader) error {
	for {
		line, err := in.Next()
		switch {
		case errors.Is(err, io.EOF):
			s.complete.Store(true)
			return nil
		case errors.Is(err, lines.ErrTooLong):
			s.refusedHere(in.Number, sources.TooLarge, "a line has at most 16Mi")
			continue
		case err != nil:
			return fmt.Errorf("line %d: %w", in.Number+1, err)
		case stream.IsHello(line):
			s.refusedHere(in.Number, "Hello", "it is the hello of the stream protocol, not a record")
			continue
		}
		s.numbers.add(in.Number)
		if err := s.sender.Send(ctx, line); err != nil {
			return err
		}
	}
}

// refusedHere says that a line was not sent at all.
func (s *sendCommand) refusedHere(line uint64, reason sources.Reason, detail string) {
	s.unsent.Add(1)
	s.console.Say("line %d refused: %s: %s", line, reason, detail)
}

// refused is told by the sender that the exporter has refused a line.
func (s *sendCommand) refused(r stream.Refused) {
	s.console.Say("line %d refused: %s: %s", s.numbers.line(r.Seq), r.Reason, human.OneLine(r.Detail))
}

// acked is told by the sender that the first n lines are handled.
func (s *sendCommand) acked(n uint64) {
	s.failure = "" // the next is worth saying again
	s.numbers.forget(n)
}

// disconnected is told by the sender of each attempt that failed. It says so
// once: a person needs to know that, and not how often. An exporter whose queue
// is full answers each time, and closes again for the same reason.
func (s *sendCommand) disconnected(err error, _ time.Duration) {
	if text := err.Error(); text != s.failure && !s.back {
		s.console.Say("cannot reach docket: %v; retrying until docket is back", err)
		s.failure, s.back = text, true
	}
}

// connected is told by the sender of each connection.
func (s *sendCommand) connected(forgotten uint64) {
	if s.back {
		s.console.Say("connected")
	}
	s.back = false
	if forgotten > 0 {
		s.console.Say("docket has forgotten %s that it had acknowledged: check whether its queue is new", human.Count(forgotten, "line"))
	}
}

// counts are what the progress shows.
type counts struct {
	stored, refused uint64
	inFlight        int64 // bytes
	connected       bool
}

func (s *sendCommand) counts() counts {
	st := s.sender.Stats()
	return counts{
		stored:    st.Handled - min(st.Handled, st.Refused), // a refusal may be known before all lines ahead of it are handled
		refused:   st.Refused + s.unsent.Load(),
		inFlight:  int64(st.InFlightBytes),
		connected: st.Connected,
	}
}

// acksText is "1 acknowledgement" or "2 acknowledgements".
func acksText(n int) string { return human.Count(uint64(n), "acknowledgement") }
