package main

import (
	"context"
	"log"
	"strings"
	"time"

	"github.com/twmb/franz-go/pkg/kgo"
)

// retry consumes the two records of a topic, and lets the first delivery of both fail: it releases the record at offset 0,
// and does not acknowledge the other one before its lock times out.
//
// Arguments after the servers and "retry": topic, group, milliseconds of a lock. Writes a line "offset delivery-count
// milliseconds" for each delivery: the time since the release, or since the first poll. Ends when both records are accepted.
func retry(servers string, arguments []string) {
	t := &tour{seeds: kgo.SeedBrokers(strings.Split(servers, ",")...), topic: arguments[0], group: arguments[1]}
	lock := time.Duration(number(arguments[2])) * time.Millisecond
	ctx, cancel := context.WithTimeout(context.Background(), 40*time.Second)
	defer cancel()
	client := t.client(kgo.ShareGroup(t.group), kgo.ConsumeTopics(t.topic))
	defer client.Close()
	since := map[int64]time.Time{0: time.Now(), 1: time.Now()}
	for accepted := 0; accepted < 2; {
		if ctx.Err() != nil {
			log.Fatalf("%d of 2 records are accepted", accepted)
		}
		polled, timesOut := time.Now(), false
		fetches := client.PollRecords(ctx, 10)
		fetches.EachRecord(func(record *kgo.Record) {
			t.print("%d %d %d", record.Offset, record.DeliveryCount(), time.Since(since[record.Offset]).Milliseconds())
			switch {
			case record.DeliveryCount() > 1:
				accepted++
				record.Ack(kgo.AckAccept)
			case record.Offset == 0:
				since[0] = time.Now()
				record.Ack(kgo.AckRelease)
			default:
				since[1], timesOut = polled, true
			}
		})
		flush(client)
		if timesOut {
			time.Sleep(lock + lock/4) // the next poll would accept the record
		}
	}
}
