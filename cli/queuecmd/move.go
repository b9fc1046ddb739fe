package queuecmd

import (
	"errors"
	"fmt"
	"io"
	"os"
	"path/filepath"
	"syscall"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/config"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/relocation"
	"github.com/docket-export/docket/internal/disk"
	"github.com/docket-export/docket/internal/human"
	"github.com/docket-export/docket/internal/moved"
)

func newQueueMove(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "move --to DIR",
		Short: "Move a queue at rest, and the file exports beside it, to another volume",
		Long: `move takes the queue, with its dead letters and all else in its directory, to DIR. File
exports that lie beside the queue go with it, as a position in each says up to which
record of which queue it goes. Each keeps its name: /old/queue and /old/export become
DIR/queue and DIR/export. Mount DIR where the old volume was, or change the
configuration.

The old queue is removed when the new one is whole and on disk. Of the two, docket runs
on one at most, at any time. When move is killed or fails, the old queue stays as it is,
or both are whole and docket refuses both: call move again to go on. A mark stays in
the old directories, so that no docket begins a new queue there by mistake.

move fails while docket runs on the queue, and where DIR has a queue or export already.
Run it as the user that docket runs as.`,
		Example: `  docket queue move -f docket.yaml --to /mnt/new`,
		Args:    command.NoArgs,
	}
	flags := command.ConfigFlags{Kinds: kinds}
	flags.Add(cmd)
	to := cmd.Flags().String("to", "", "directory that the queue and the exports beside it move into")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *to == "" {
			return errors.New("where to? Name a directory with --to")
		}
		cfg, err := flags.Load()
		if err != nil {
			return err
		}
		return move(cfg, *to, cmd.OutOrStdout())
	}
	return cmd
}

// move moves the queue of cfg and says on w what went where.
func move(cfg *exporter.Config, to string, w io.Writer) error {
	pairs, staying, err := movePairs(cfg, to)
	if err != nil {
		return command.Failed(err)
	}
	if _, err := inspect.OpenToLook(pairs[0].From, nil); errors.Is(err, inspect.ErrNoQueue) {
		return command.Misconfigured("%w", err)
	}
	r := relocation.Relocation{Pairs: pairs, Disk: disk.OS, Keep: keepAccess}
	result, err := r.Run()
	if err != nil {
		return command.Failed(err)
	}
	printMove(w, result, staying)
	return nil
}

// movePairs are the queue and the exports beside it; staying are the other exports.
func movePairs(cfg *exporter.Config, to string) (pairs []relocation.Pair, staying []string, err error) {
	queue, err := filepath.Abs(cfg.Queue.Directory)
	if err == nil {
		to, err = filepath.Abs(to)
	}
	if err != nil {
		return nil, nil, err
	}
	base := filepath.Dir(queue)
	pairs = []relocation.Pair{{From: queue, To: filepath.Join(to, filepath.Base(queue))}}
	for _, c := range cfg.Claims(config.Directory) {
		export, err := filepath.Abs(c.Value)
		if err != nil {
			return nil, nil, err
		}
		below, err := filepath.Rel(base, export)
		if err != nil || !filepath.IsLocal(below) {
			staying = append(staying, export)
			continue
		}
		pairs = append(pairs, relocation.Pair{From: export, To: filepath.Join(to, below)})
	}
	return pairs, staying, nil
}

func printMove(w io.Writer, result relocation.Result, staying []string) {
	if result.Files > 0 {
		fmt.Fprintf(w, "moved %s, %s:\n", human.Count(uint64(result.Files), "file"), human.Size(result.Bytes))
	} else {
		fmt.Fprintln(w, "copied before, now moved:")
	}
	for _, p := range result.Pairs {
		fmt.Fprintf(w, "  %s -> %s\n", p.From, p.To)
	}
	for _, dir := range staying {
		fmt.Fprintf(w, "  %s stays: it is not beside the queue\n", dir)
	}
	fmt.Fprintf(w, "Name the new directories in the configuration, or mount their volume where the old one was. "+
		"The file %s stays in the old ones.\n", moved.ToFile)
}

// keepAccess gives a copy the owner, the group and the mode of its original.
func keepAccess(from, to disk.Path) error {
	stat := os.Lstat
	if from.Rooted().IsRoot() {
		stat = os.Stat // the operator has named it: it may be a link
	}
	info, err := stat(from.String())
	if err != nil {
		return err
	}
	open := to.Rooted().Open
	if info.IsDir() {
		open = to.Rooted().OpenDir
	}
	f, err := open()
	if err != nil {
		return err
	}
	defer f.Close() // nothing is written through it
	is, err := f.Stat()
	if err != nil {
		return err
	}
	was, now := info.Sys().(*syscall.Stat_t), is.Sys().(*syscall.Stat_t)
	if was.Uid != now.Uid || was.Gid != now.Gid {
		if err := f.Chown(int(was.Uid), int(was.Gid)); err != nil {
			return fmt.Errorf("%w: its original belongs to user %d, group %d: run move as that user, or as root", err, was.Uid, was.Gid)
		}
	}
	if is.Mode() == info.Mode() {
		return nil
	}
	return f.Chmod(info.Mode())
}
