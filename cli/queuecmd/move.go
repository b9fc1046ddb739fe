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
		Short: "Move a stopped queue and its file exports to another volume",
		Long: `move takes the queue to DIR, with its dead letters and everything else in its
directory. File exports beside the queue move too, as each holds a position in
this queue. Each directory keeps its name: /old/queue and /old/export become
DIR/queue and DIR/export. Afterwards mount DIR where the old volume was, or
change the configuration.

move removes the old queue when the new one is complete and on disk. docket
never runs on both. If move is killed or fails, either the old queue is
unchanged, or both are complete and docket refuses both: run move again to
finish. A mark stays in the old directories, so that no docket starts a new
queue there by mistake.

move fails while docket runs on the queue, or when DIR already has a queue or an
export. Run it as the user that docket runs as.`,
		Example: `  docket queue move -f docket.yaml --to /mnt/new`,
		Args:    command.NoArgs,
	}
	flags := command.ConfigFlags{Kinds: kinds}
	flags.Add(cmd)
	to := cmd.Flags().String("to", "", "directory to move the queue and the exports beside it into")
	cmd.RunE = func(cmd *cobra.Command, _ []string) error {
		if *to == "" {
			return errors.New("missing --to DIR: name the directory to move the queue into")
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
		"The file %s stays in the old directories.\n", moved.ToFile)
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
			return fmt.Errorf("%w: the original belongs to user %d, group %d: run move as this user, or as root", err, was.Uid, was.Gid)
		}
	}
	if is.Mode() == info.Mode() {
		return nil
	}
	return f.Chmod(info.Mode())
}
