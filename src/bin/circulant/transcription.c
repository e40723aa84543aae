/* Algorithms 2 to 6 of J. L. Traeff, "Optimal Broadcast Schedules in Logarithmic Time with
 * Applications to Broadcast, All-Broadcast, Reduction and All-Reduction" (2024), transcribed line
 * by line: what circulant's own computation is timed against (timing.rs).
 *
 * The search of Algorithm 4 ends at k = q, which the paper leaves implicit. The arrays next and
 * prev have an element -1: they are stored shifted by one. */

#define MAX_Q 64

/* What transcription.rs declares. */
int paper_skips(long p, long *skip);
void paper_schedules(const long *skip, int q, long r, signed char *recv, signed char *send);

struct search {
    const long *skip;
    int q;
    long r;
    signed char *recvblock;
    int next_[MAX_Q + 2], prev_[MAX_Q + 2];
};

#define NEXT(x, e) ((x)->next_[(e) + 1])
#define PREV(x, e) ((x)->prev_[(e) + 1])

/* Algorithm 2; returns q. skip has room for MAX_Q + 1. */
int paper_skips(long p, long *skip)
{
    int q = 0;
    while ((1L << q) < p) q++;
    skip[q] = p;
    for (int k = q; k > 0; k--) skip[k - 1] = skip[k] - skip[k] / 2;
    return q;
}

/* Algorithm 3. */
static int baseblock(const long *skip, int q, long r)
{
    int k = q;
    long r1 = 0;
    while (k > 0) {
        k--;
        if (r1 + skip[k] == r) return k;
        if (r1 + skip[k] < r) r1 += skip[k];
    }
    return q;
}

static void unlink_index(struct search *x, int e)
{
    NEXT(x, PREV(x, e)) = NEXT(x, e);
    PREV(x, NEXT(x, e)) = PREV(x, e);
}

/* Algorithm 4. */
static int allblocks(struct search *x, long r1, long s, int e, int k)
{
    while (e != -1 && k < x->q) {
        if (r1 + x->skip[e] <= x->r - x->skip[k] && r1 + x->skip[e] < s) {
            if (r1 + x->skip[e] <= x->r - x->skip[k + 1]) {
                k = allblocks(x, r1 + x->skip[e], s, e, k);
                if (k == x->q) return k;
            }
            if (r1 > x->r - x->skip[k + 1]) return k;
            s = r1 + x->skip[e];
            x->recvblock[k++] = (signed char)e;
            unlink_index(x, e);
        }
        e = NEXT(x, e);
    }
    return k;
}

/* Algorithm 5. */
static void receive_schedule(const long *skip, int q, long r, signed char *recvblock)
{
    struct search x;
    x.skip = skip;
    x.q = q;
    x.r = skip[q] + r;
    x.recvblock = recvblock;
    for (int e = 0; e <= q; e++) {
        NEXT(&x, e) = e - 1;
        PREV(&x, e) = e + 1;
    }
    PREV(&x, q) = -1;
    NEXT(&x, -1) = q;
    PREV(&x, -1) = 0;
    int b = baseblock(skip, q, r);
    unlink_index(&x, b);
    allblocks(&x, 0, 2 * skip[q], q, 0);
    for (int k = 0; k < q; k++)
        recvblock[k] = (signed char)(recvblock[k] == q ? b : recvblock[k] - q);
}

/* Algorithm 6. */
static void send_schedule(const long *skip, int q, long r, signed char *sendblock)
{
    signed char block[MAX_Q];
    long p = skip[q];
    if (r == 0) {
        for (int k = 0; k < q; k++) sendblock[k] = (signed char)k;
        return;
    }
    int b = baseblock(skip, q, r), c = b;
    long r1 = r, e = p;
    for (int k = q - 1; k > 0; k--) {
        if (r1 < skip[k]) {
            if (r1 + skip[k] < e || e < skip[k - 1] || (k == 1 && b > 0)) {
                sendblock[k] = (signed char)c;
            } else {
                receive_schedule(skip, q, (r + skip[k]) % p, block);
                sendblock[k] = block[k];
            }
            if (e > skip[k]) e = skip[k];
        } else {
            c = k - q;
            if (k == 1 || r1 > skip[k] || e - skip[k] < skip[k - 1]) {
                sendblock[k] = (signed char)c;
            } else if (r1 + skip[k] > e) {
                receive_schedule(skip, q, (r + skip[k]) % p, block);
                sendblock[k] = block[k];
            } else {
                sendblock[k] = (signed char)c;
            }
            r1 -= skip[k];
            e -= skip[k];
        }
    }
    if (q > 0) sendblock[0] = (signed char)(b - q);
}

void paper_schedules(const long *skip, int q, long r, signed char *recv, signed char *send)
{
    receive_schedule(skip, q, r, recv);
    send_schedule(skip, q, r, send);
}
