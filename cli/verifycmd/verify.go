// Package verifycmd has the commands on signed exports: docket verify and docket keygen.
package verifycmd

import (
	"context"
	"crypto/ed25519"
	"errors"
	"fmt"
	"io"
	"os"
	"strconv"
	"strings"

	"github.com/google/uuid"
	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/sinks/filesink/manifest"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// New returns docket verify.
func New() *cobra.Command {
	cmd := &cobra.Command{
		Use:   "verify DIR",
		Short: "Prove a file export complete and unchanged, or name the first break",
		Long: `verify reads the manifest of a file export and every file in it, and prints what
is proven. It only reads, and may run while docket writes. Its exit codes:

  0  Proven      complete up to an anchor from outside DIR
  1  Broken      something is missing or was changed: where, and the likely cause
  3  Unanchored  consistent, but the end of the export is not proven: somebody
                 may have removed the newest files, or all of them

An attacker who can write to DIR can rewrite all of it, with the manifest, or
restore an older state. So an anchor must come from elsewhere:

  --checkpoints  records "docket.export.checkpoint", which docket sends to every sink:
                 a copy from the SIEM or the Kafka topic, as NDJSON
  --last         the earlier end of the export: the id of a record, or the hash of
                 the last line that an earlier verify printed

--public-key checks who wrote the lines. It is no anchor, because a signed
export without its newest lines is signed as well.

docs/verify.md lists what is proven and what is not.`,
		Example: `  docket verify /var/log/docket --checkpoints siem-export.ndjson --public-key docket.pub
  kcat -C -e -b kafka:9092 -t decisions | docket verify /var/log/docket --checkpoints -
  docket verify /var/log/docket --checkpoints all.ndjson --sink compliance     of several file sinks
  docket verify /var/log/docket --last 6f0c...-48210`,
		Args: oneDirectory,
	}
	var flags verifyFlags
	flags.add(cmd)
	output := command.OutputFlag(cmd, "text", "json")
	cmd.RunE = func(cmd *cobra.Command, args []string) error {
		c := verifyCommand{dir: args[0], out: cmd.OutOrStdout(), json: output.Value == "json", console: terminal.NewConsole(cmd.ErrOrStderr())}
		if err := flags.options(&c, cmd.InOrStdin()); err != nil {
			return err
		}
		return c.run(cmd.Context())
	}
	return cmd
}

func oneDirectory(_ *cobra.Command, args []string) error {
	if len(args) != 1 {
		return errors.New("wrong number of arguments: name the directory of one export")
	}
	return nil
}

// verifyFlags say what to prove beyond what the directory says of itself.
type verifyFlags struct {
	publicKeys  []string
	last        string
	checkpoints string
	sink        string
}

func (f *verifyFlags) add(cmd *cobra.Command) {
	cmd.Flags().StringArrayVar(&f.publicKeys, "public-key", nil, "file with a public key of the exporter; repeat it for earlier keys")
	cmd.Flags().StringVar(&f.last, "last", "", "id of a record, or hash of a manifest line, that the export must have")
	cmd.Flags().StringVar(&f.checkpoints, "checkpoints", "", "file with copies of docket.export.checkpoint records, NDJSON; - reads standard input")
	cmd.Flags().StringVar(&f.sink, "sink", "", "sink that writes the export: only its checkpoints count")
}

// options makes the options of c.
func (f *verifyFlags) options(c *verifyCommand, stdin io.Reader) (err error) {
	if f.sink != "" && f.checkpoints == "" {
		return errors.New("--sink needs checkpoints: name them with --checkpoints")
	}
	c.options = verify.Options{Sink: f.sink, Progress: &verify.Progress{}}
	if c.options.PublicKeys, err = readPublicKeys(f.publicKeys); err != nil {
		return err
	}
	if c.options.Last, err = parseAnchor(f.last); err != nil {
		return err
	}
	c.options.Checkpoints, err = readCheckpoints(f.checkpoints, stdin)
	return err
}

func readPublicKeys(files []string) (keys []ed25519.PublicKey, err error) {
	for _, file := range files {
		text, err := os.ReadFile(file)
		if err != nil {
			return nil, command.Misconfigured("public key: %w", err)
		}
		parsed, err := manifest.ParsePublicKeys(text)
		if err != nil {
			return nil, command.Misconfigured("public key %s: %w", file, err)
		}
		keys = append(keys, parsed...)
	}
	return keys, nil
}

// readCheckpoints reads --checkpoints; nil when it was not given.
func readCheckpoints(path string, stdin io.Reader) (list []verify.Checkpoint, err error) {
	switch path {
	case "":
		return nil, nil
	case "-":
		list, err = verify.ReadCheckpoints(stdin, "standard input")
	default:
		f, openErr := os.Open(path)
		if openErr != nil {
			return nil, command.Misconfigured("checkpoints: %w", openErr)
		}
		defer f.Close() // read only: nothing can be lost
		list, err = verify.ReadCheckpoints(f, path)
	}
	if err != nil {
		return nil, command.Misconfigured("checkpoints: %w", err)
	}
	return list, nil
}

// parseAnchor reads --last; nil when it was not given.
func parseAnchor(text string) (*verify.Anchor, error) {
	if text == "" {
		return nil, nil
	}
	var hash manifest.Hash
	if err := hash.UnmarshalText([]byte(text)); err == nil {
		return &verify.Anchor{Line: &hash}, nil
	}
	if at := strings.LastIndexByte(text, '-'); at > 0 {
		queue, err := uuid.Parse(text[:at])
		seq, err2 := strconv.ParseUint(text[at+1:], 10, 64)
		if err == nil && err2 == nil && seq > 0 {
			return &verify.Anchor{Queue: queue.String(), Seq: seq}, nil
		}
	}
	return nil, fmt.Errorf("--last %q is not valid: give the id of a record, <uuid of the queue>-<number>, or a hash of 64 hexadecimal digits", text)
}

// verifyCommand is one run of verify.
type verifyCommand struct {
	dir     string
	options verify.Options
	out     io.Writer
	json    bool
	console *terminal.Console
}

func (c *verifyCommand) run(ctx context.Context) error {
	r, err := c.prove(ctx)
	if err != nil {
		return err
	}
	if c.json {
		err = terminal.WriteJSON(c.out, verifyToJSON(c, r))
	} else {
		err = writeVerdict(c.out, c, r)
	}
	if err != nil {
		return command.Failed(err)
	}
	switch r.Verdict() {
	case verify.Broken:
		return command.Failed(fmt.Errorf("export %s is broken: %s", c.dir, r.Break.Kind))
	case verify.Unanchored:
		return &unanchoredError{c.dir, len(r.Doubts) > 0}
	default:
		return nil
	}
}

// unanchoredError says that nothing is wrong with an export, and its end not proven.
type unanchoredError struct {
	dir       string
	isDoubted bool // there are anchors, and the report says why they prove nothing
}

func (e *unanchoredError) Error() string {
	if e.isDoubted {
		return fmt.Sprintf("export %s is not proven: see \"not proven\" in the report", e.dir)
	}
	return fmt.Sprintf("export %s: the end is not proven: give an anchor with --checkpoints or --last", e.dir)
}

// prove proves the export, and shows how far it is.
func (c *verifyCommand) prove(ctx context.Context) (verify.Report, error) {
	defer c.console.Follow(func() terminal.Work {
		p := c.options.Progress
		return terminal.Work{What: "reading the export", Done: p.Done.Load(), Total: p.Total.Load()}
	})()
	r, err := verify.Run(ctx, c.dir, c.options)
	switch {
	case errors.Is(err, verify.ErrNoExport):
		err = command.Misconfigured("%w", err)
	case errors.Is(err, verify.ErrWhichSink):
		err = command.Misconfigured("%w: name the sink that writes it with --sink", err)
	default:
		err = command.Failed(err)
	}
	return r, err
}

// ExitCode is for docket verify alone.
func (e *unanchoredError) ExitCode() int { return 3 }
