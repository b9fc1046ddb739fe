package verifycmd

import (
	"context"
	"errors"
	"fmt"
	"io"
	"strings"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/cli/internal/terminal"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/sinks/filesink/verify"
)

// ProofFlags are the flags of docket verify that name anchors, for commands that read only
// proven exports.
type ProofFlags struct{ verifyFlags }

// ProofFlagNames are the names of ProofFlags.
const ProofFlagNames = "--public-key, --last, --checkpoints, --against and --sink"

// Add adds the flags to cmd.
func (f *ProofFlags) Add(cmd *cobra.Command) { f.addAnchors(cmd) }

// AreSet reports whether any of the flags is set.
func (f *ProofFlags) AreSet() bool {
	return len(f.publicKeys) > 0 || f.last+f.checkpoints+f.against+f.sink != ""
}

// Prove proves the export in dir and returns the records that an anchor covers. The caller
// must close the contents. Prove tells console how far the proof goes, and fails without a
// proof.
func (f *ProofFlags) Prove(ctx context.Context, dir string, stdin io.Reader, console *terminal.Console) (contents *verify.Contents, err error) {
	c := verifyCommand{dir: dir, console: console}
	closeReference, err := f.options(&c, stdin)
	if err != nil {
		return nil, err
	}
	defer closeReference()
	r, err := c.prove(ctx, func(ctx context.Context, dir string, o verify.Options) (r verify.Report, err error) {
		r, contents, err = verify.Prove(ctx, dir, o)
		return r, err
	})
	if err != nil {
		return nil, err
	}
	for _, doubt := range r.Doubts {
		console.Say("not proven: %s", human.OneLine(doubt))
	}
	switch r.Verdict() {
	case verify.Broken:
		return nil, command.Failed(fmt.Errorf("export %s is broken, and was not searched: %s: docket verify says where", dir, r.Break.Kind))
	case verify.Unanchored:
		e := &unanchoredError{dir, len(r.Doubts) > 0, "--checkpoints, --last or --against"}
		return nil, command.Failed(errors.New(e.Error())) // its exit code is that of docket verify
	}
	console.Say("%s", strings.TrimSuffix(soundText(human.OneLine(dir), r), "\n"))
	if text := unprovenText(r); text != "" {
		console.Say("not searched: %s", text)
	}
	return contents, nil
}
