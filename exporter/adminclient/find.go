package adminclient

import (
	"context"
	"errors"
	"fmt"
	"io/fs"

	"github.com/docket-export/docket/exporter/queue/inspect"
	"github.com/docket-export/docket/exporter/queue/state"
)

// Find returns a client of the docket that works on the queue in directory or, where none
// does, the queue as open opens it, which the caller closes. It fails with
// inspect.ErrNoQueue when there is no queue.
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
		return nil, nil, fmt.Errorf("queue %s is in use by %s, which cannot be reached over its admin socket (%w): try again if it has just "+
			"begun or is ending; or ask it with --admin and --token-file over its admin.address; or stop it first",
			directory, inUse.Holder, reason)
	}
	return nil, o, err
}
