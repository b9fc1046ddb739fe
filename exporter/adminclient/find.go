package adminclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Find returns a client of the docket that runs on the queue in directory. Without a
// running docket it returns the queue as open opens it, and the caller closes the queue.
// It fails with inspect.ErrNoQueue when directory has no queue.
func Find(ctx context.Context, directory string, open inspect.Opener) (*Client, *inspect.Queue, error) {
	client := ForQueue(directory)
	reason := client.Reach(ctx)
	if reason == nil {
		return client, nil, nil
	}
	if errors.Is(reason, fs.ErrPermission) {
		return nil, nil, reason
	}
	o, err := open(directory, nil)
	if inUse, ok := errors.AsType[*state.InUseError](err); ok {
		return nil, nil, fmt.Errorf("queue %s is in use by %s, which does not answer on its admin socket (%w): try again if it is "+
			"starting or stopping. Otherwise stop it",
			directory, inUse.Holder, reason)
	}
	return nil, o, err
}
