package queue

import (
	"context"
	"fmt"
	"slices"
	"strings"
	"sync"
	"testing"
)

// BenchmarkNext reads a backlog in batches of several sizes.
func BenchmarkNext(b *testing.B) {
	q, err := Open(Options{Directory: b.TempDir()})
	if err != nil {
		b.Fatal(err)
	}
	defer q.Close(context.Background())
	rec := strings.Repeat("x", 1000)
	recs := slices.Repeat([]string{rec}, 50)
	var wg sync.WaitGroup
	for range 2000 {
		wg.Add(1)
		_ = q.Append(context.Background(), chunk(recs...), wg.Done)
	}
	wg.Wait()
	for _, n := range []int{1, 10, 100, 500} {
		b.Run(fmt.Sprint(n), func(b *testing.B) {
			b.ReportAllocs()
			c, _ := q.Cursor(fmt.Sprint(n, b.N), false)
			defer func() { c.Close(); q.Forget(fmt.Sprint(n, b.N)) }()
			for i := 0; i < b.N; {
				r, err := c.Next(context.Background(), Limits{Records: n, Bytes: 1 << 20})
				if err != nil {
					b.Fatal(err)
				}
				i += len(r)
				if c.next > 99000 {
					c.Close()
					q.Forget(c.name)
					c, _ = q.Cursor(fmt.Sprint(n, b.N), false)
				}
			}
		})
	}
}
