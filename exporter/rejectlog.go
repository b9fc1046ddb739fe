package exporter

import (
	"log/slog"
	"sync"
	"time"

	"github.com/docket-export/docket/exporter/deadletter"
)

// rejectPause is how long the log stays silent about rejected records after it has told
// of some: a destination that rejects everything must not fill it.
const rejectPause = 10 * time.Second

// rejectText is the log line of each policy.
var rejectText = map[OnReject]string{
	DeadLetter:   "destination rejects records: they are set aside, see docket deadletter ls",
	DropRejected: "destination rejects records: they are dropped, as onReject says",
}

// rejectLog tells of rejected records, by one of them and the number of all since.
type rejectLog struct {
	mu     sync.Mutex
	told   time.Time // guarded by mu
	untold int       // records since; guarded by mu
}

func (r *rejectLog) tell(log *slog.Logger, policy OnReject, firstID string, list []deadletter.Letter) {
	r.mu.Lock()
	r.untold += len(list)
	n := r.untold
	if time.Since(r.told) < rejectPause {
		r.mu.Unlock()
		return
	}
	r.told, r.untold = time.Now(), 0
	r.mu.Unlock()
	log.Warn(rejectText[policy], "records", n, "id", firstID, "status", list[0].Status, "answer", list[0].Answer, "error", list[0].Reason)
}
