// Package queuecmd has the commands that look into a queue, and set a sink back: docket queue
// and docket replay.
package queuecmd

import (
	"context"
	"errors"
	"fmt"

	"github.com/spf13/cobra"

	"github.com/docket-export/docket/cli/internal/command"
	"github.com/docket-export/docket/exporter"
	"github.com/docket-export/docket/exporter/adminclient"
	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/state"
)

// New returns docket queue.
func New(kinds exporter.Kinds) *cobra.Command {
	cmd := &cobra.Command{
		Use:   "queue",
		Short: "Inspect or check a queue",
		Long: `ls and cat show the queue of a running docket, over the socket admin.sock in the
queue's directory. While no docket runs they read the files.

check works on the files while no docket runs on them. No command changes
anything. To move a queue, stop docket and copy the directory.`,
		Example: `  docket queue ls                  what the queue below ./docket-data holds
  docket queue check -f docket.yaml
  docket queue check --queue /tmp/copy-of-a-queue`,
	}
	command.Group(cmd, newQueueLs(kinds), newQueueCat(kinds), newQueueCheck(kinds))
	return cmd
}

// queueFlags are the flags that say which queue a command is about.
type queueFlags struct {
	command.ConfigFlags
	directory string
}

func newQueueFlags(cmd *cobra.Command, kinds exporter.Kinds) *queueFlags {
	f := &queueFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}
	f.Add(cmd)
	addQueueFlag(cmd, &f.directory)
	return f
}

// lookFlags are the flags of commands that look into a queue at work, too.
type lookFlags struct {
	command.AdminFlags
	directory string
}

func newLookFlags(cmd *cobra.Command, kinds exporter.Kinds) *lookFlags {
	f := &lookFlags{AdminFlags: command.AdminFlags{ConfigFlags: command.ConfigFlags{Kinds: kinds}}}
	f.Add(cmd)
	addQueueFlag(cmd, &f.directory)
	return f
}

func addQueueFlag(cmd *cobra.Command, directory *string) {
	cmd.Flags().StringVar(directory, "queue", "", "directory of the queue itself, such as a copy; needs no configuration")
}

// with calls at with a client of the docket that works on the queue, or rest with the queue.
func (f *lookFlags) with(ctx context.Context, at func(*adminclient.Client) error, rest func(*inspect.Queue) error) error {
	if f.directory != "" && (f.File != "" || f.Data != "") {
		return errOneQueue
	}
	client, o, err := f.Find(ctx, f.directory, inspect.OpenToLook)
	if err != nil {
		return err
	}
	if client != nil {
		return command.Failed(at(client))
	}
	return command.Failed(errors.Join(rest(o), o.Close()))
}

var errOneQueue = errors.New("--queue excludes --file and --data: --queue names the directory itself")

// with calls do with the queue that the flags name. An error of do is one of running, unless it
// says otherwise.
func (f *queueFlags) with(do func(*inspect.Queue) error) error {
	directory := f.directory
	switch {
	case directory == "":
		cfg, err := f.Load()
		if err != nil {
			return err
		}
		directory = cfg.Queue.Directory
	case f.File != "" || f.Data != "":
		return errOneQueue
	}
	o, err := inspect.OpenToLook(directory, nil)
	if inUse, ok := errors.AsType[*state.InUseError](err); ok {
		return command.Failed(fmt.Errorf("queue %s is in use by %s: stop docket first, or ask the running docket with docket status", directory, inUse.Holder))
	}
	if errors.Is(err, inspect.ErrNoQueue) {
		return command.Misconfigured("%w", err)
	}
	if err != nil {
		return command.Failed(err)
	}
	return command.Failed(errors.Join(do(o), o.Close()))
}
