package streamsource

import (
	"testing"

	"github.com/docket-export/docket/sources"
)

// The limit of open files may leave fewer connections than are configured, and never more.
func TestDescriptorsBoundConnections(t *testing.T) {
	for configured, want := range map[int]int{1000: 100, 10: 10} {
		s := newServer(sources.Env{MaxConnections: 100, MaxRecordBytes: 1 << 20}, nil, gate{maxConnections: configured})
		if got := s.seats.most; got != want {
			t.Errorf("%d configured: got %d, want %d", configured, got, want)
		}
	}
}

// When the descriptors have run out in spite of that, the identity with the most connections loses
// its idlest, and one that has a single connection keeps it.
func TestShortageHurtsWhoHasMost(t *testing.T) {
	table := newSeats(10, false)
	var left []string
	for _, identity := range []string{"modest", "greedy", "greedy", "greedy"} {
		if _, err := table.claim(nil, identity, func() { left = append(left, identity) }); err != nil {
			t.Fatal(err)
		}
	}
	for range 5 {
		table.shed()
	}
	if len(left) != 2 || left[0] != "greedy" || left[1] != "greedy" {
		t.Errorf("left: %v, want two of the greedy one", left)
	}
}
