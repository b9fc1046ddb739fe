package audit

import (
	"context"
	"fmt"
	"runtime"
	"strconv"
	"testing"

	corev1 "k8s.io/api/core/v1"
	"k8s.io/apimachinery/pkg/apis/meta/v1/unstructured"

	"github.com/docket-export/docket/webhook/engine/policy"
)

// many is a Lister of any number of pods, each made when it is listed. It measures what is
// held beside its pages.
type many struct {
	n, lists int
	heap     uint64 // the most
}

func (m *many) Kinds(context.Context) ([]Kind, error) { return []Kind{pods}, nil }

func (m *many) Namespace(context.Context, string) (*corev1.Namespace, error) {
	return &corev1.Namespace{}, nil
}

func (m *many) List(_ context.Context, _ Kind, limit int64, token string) (*unstructured.UnstructuredList, error) {
	if m.lists++; m.lists%20 == 0 {
		m.heap = max(m.heap, heap())
	}
	from, _ := strconv.Atoi(token)
	list := &unstructured.UnstructuredList{}
	for i := from; i < min(m.n, from+int(limit)); i++ {
		list.Items = append(list.Items, *newObject(pods, "shop", fmt.Sprintf("pod-%06d", i)))
	}
	if from+int(limit) < m.n {
		list.SetContinue(strconv.Itoa(from + int(limit)))
	}
	return list, nil
}

func heap() uint64 {
	runtime.GC()
	var s runtime.MemStats
	runtime.ReadMemStats(&s)
	return s.HeapAlloc
}

// A run of five times as many objects holds 16 to 64 more bytes for each, and no object,
// violation or record: every object here violates a policy.
func TestMemory(t *testing.T) {
	const few, lots, perObject, slack = 20_000, 100_000, 64, 1 << 20
	held := func(n int) uint64 {
		m := &many{n: n}
		before := heap()
		report, err := Run(t.Context(), Config{Lister: m, Policies: forgetful{&policies{}}})
		if err != nil || !report.Complete || report.Violations != uint64(n) {
			t.Fatalf("got %+v, %v", report, err)
		}
		return max(m.heap, before) - before
	}
	small, large := held(few), held(lots)
	t.Logf("%d objects: %d KiB, %d objects: %d KiB", few, small>>10, lots, large>>10)
	if large > small+(lots-few)*perObject+slack {
		t.Errorf("a run of %d objects holds %d bytes, of %d %d", few, small, lots, large)
	}
}

// forgetful policies do not keep what they were asked.
type forgetful struct{ *policies }

func (f forgetful) Review(ctx context.Context, r policy.Request) policy.Verdict {
	return (&policies{}).Review(ctx, r)
}
