package node

import (
	"errors"
	"fmt"
	"net/http"
	"os"
	"path/filepath"
	"strings"
	"syscall"
	"testing"
)

// A docket that is killed is started again on the same queue; the engine stays.
func TestKilled(t *testing.T) {
	t.Parallel()
	for name, volume := range map[string][]string{"emptyDir": nil, "ephemeral": {"--volume", "ephemeral"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := pod{engine: "-every=5ms", flags: volume, claim: "engine-docket-queue"}.start(t)
			s.r.Answer(http.StatusServiceUnavailable)
			s.ackedAfter(len(s.acked()))
			s.inside("kill -KILL $1", s.process())
			if code, _ := s.restarted(); code != "137" {
				t.Errorf("docket ended with %s, want 137", code)
			}
			s.ackedAfter(len(s.acked()))
			s.r.Answer(0)
			s.nothingLost()
		})
	}
}

// A docket that the kernel kills for want of memory is started again on the same queue.
func TestOutOfMemory(t *testing.T) {
	t.Parallel()
	s := pod{engine: "-every=5ms"}.start(t)
	s.r.Answer(http.StatusServiceUnavailable)
	s.ackedAfter(len(s.acked()))
	// A process in docket's control group takes what docket may have. docket is made the likelier victim.
	s.inside(`echo 1000 >/proc/$1/oom_score_adj
group=$(awk -F: '$2 == "memory" || $1 == 0 { print $3 }' /proc/$1/cgroup | head -n 1)
for h in /sys/fs/cgroup/memory /sys/fs/cgroup; do
	if [ -e "$h$group/cgroup.procs" ]; then
		sh -c 'echo $$ >"$0/cgroup.procs" && exec dd if=/dev/zero of=/dev/null bs=78M count=1' "$h$group" 2>/dev/null || true
		exit
	fi
done
exit 1`, s.process())
	if code, reason := s.restarted(); code != "137" || reason != "OOMKilled" {
		t.Errorf("docket ended with %s, %s; want 137, OOMKilled", code, reason)
	}
	s.ackedAfter(len(s.acked()))
	s.r.Answer(0)
	s.nothingLost()
}

// The sizeLimit that docket kubernetes sidecar writes has room for a full queue. Below it the pod is evicted without
// grace, and its emptyDir goes with all that is pending.
func TestEvicted(t *testing.T) {
	t.Parallel()
	s := pod{engine: "-every=5ms -size=20000", change: func(spec parts) {
		queueVolume(spec)["emptyDir"].(parts)["sizeLimit"] = "8Mi" // enough while the receiver takes records
	}}.start(t)
	s.r.Answer(http.StatusServiceUnavailable)
	s.Await("the eviction", func() error {
		out, err := s.TryKubectl("get", "pod", "engine", "-o", "jsonpath={.status.phase} {.status.reason}: {.status.message}")
		if err != nil {
			return err
		}
		if !strings.HasPrefix(out, "Failed Evicted: ") || !strings.Contains(out, `"docket-queue"`) {
			return errors.New(out)
		}
		return nil
	})
	uids := s.acked()
	lost := len(s.r.Missing(uids))
	t.Logf("%d acknowledged, %d lost", len(uids), lost)
	if lost == 0 || lost == len(uids) {
		t.Errorf("%d of %d acknowledged records are lost, want those that were pending", lost, len(uids))
	}
}

// A full queue stays below the sizeLimit that docket kubernetes sidecar writes: the pod is not evicted, and
// nothing that was acknowledged is lost.
func TestFullQueue(t *testing.T) {
	t.Parallel()
	s := pod{engine: "-every=1ms -size=20000"}.start(t)
	s.r.Answer(http.StatusServiceUnavailable)
	s.Await("a full queue", func() error {
		// exit code 0 in any state
		out, err := s.TryKubectl("exec", "engine", "-c", "docket", "--", "docket", "status", "-f", "/etc/docket/docket.yaml")
		if err == nil && !strings.Contains(out, "full: producers wait") {
			err = errors.New(out)
		}
		return err
	})
	limit := s.get("{.spec.volumes[?(@.name=='docket-queue')].emptyDir.sizeLimit}")
	volume := filepath.Join(s.Node.Dir, "lib/kubelet/pods", s.get("{.metadata.uid}"), "volumes/kubernetes.io~empty-dir/docket-queue")
	var most int64
	if _, err := fmt.Sscanf(limit, "%dMi", &most); err != nil {
		t.Fatalf("the limit is %q: %v", limit, err)
	}
	if used := diskUsage(t, volume); used < 15<<20 || used > most<<20 {
		t.Errorf("%d bytes are used of %s, want nearly the 16Mi of the queue or more, and less than the limit", used, limit)
	}
	s.r.Answer(0)
	s.ackedAfter(len(s.acked()))
	s.nothingLost()
}

// diskUsage is the room that the files below dir take.
func diskUsage(t *testing.T, dir string) (n int64) {
	t.Helper()
	err := filepath.Walk(dir, func(_ string, info os.FileInfo, err error) error {
		if errors.Is(err, os.ErrNotExist) {
			return nil // docket has removed it
		}
		if err == nil {
			n += info.Sys().(*syscall.Stat_t).Blocks * 512
		}
		return err
	})
	if err != nil {
		t.Fatal(err)
	}
	return n
}

// A pod on a claim that is deleted, in order or by force, while its sink is down finds its queue again.
func TestClaim(t *testing.T) {
	t.Parallel()
	for name, flags := range map[string][]string{"in order": nil, "by force": {"--grace-period=0", "--force"}} {
		t.Run(name, func(t *testing.T) {
			t.Parallel()
			s := newScene(t)
			s.Volume("docket")
			s.Apply(claim)
			p := pod{engine: "-every=5ms", flags: []string{"--volume", "claim=docket"}}
			manifest := p.manifest(t, s.Node, s.r)
			s.Apply(manifest)
			s.run()
			s.r.Answer(http.StatusServiceUnavailable)
			s.ackedAfter(len(s.acked()))
			s.Kubectl(append([]string{"delete", "pod", "engine", "--timeout=10m"}, flags...)...)
			uids := s.acked()
			missing := len(s.r.Missing(uids))
			if missing == 0 {
				t.Error("nothing was pending when the pod was deleted")
			}
			s.r.Answer(0)
			s.Apply(manifest)
			s.run()
			s.Await("what was pending", func() error {
				if left := len(s.r.Missing(uids)); left > 0 {
					return fmt.Errorf("%d of %d are missing", left, missing)
				}
				return nil
			})
			t.Logf("%d acknowledged, %d pending when the pod was deleted, 0 lost", len(uids), missing)
			s.nothingLost()
		})
	}
}

const claim = `apiVersion: v1
kind: PersistentVolumeClaim
metadata: {name: docket}
spec: {accessModes: [ReadWriteOnce], storageClassName: "", resources: {requests: {storage: 300Mi}}}
`

// While the kubelet is down pods go on; a docket that ends then is started again when the kubelet is back. It disturbs
// the tests of other pods, so it runs alone.
func TestKubeletKilled(t *testing.T) {
	s := pod{engine: "-every=5ms"}.start(t)
	// The shell that starts the kubelet again is held meanwhile.
	shell := strings.TrimSpace(s.inside(`kubelet=$(pidof kubelet)
shell=$(awk '$1 == "PPid:" { print $2 }' /proc/$kubelet/status)
kill -STOP $shell
kill -KILL $kubelet
echo $shell`))
	s.ackedAfter(len(s.acked()))
	s.inside("kill -KILL $1; ! pidof kubelet", s.process())
	s.inside("kill -CONT $1", shell)
	s.restarted()
	s.ackedAfter(len(s.acked()))
	s.nothingLost()
}
