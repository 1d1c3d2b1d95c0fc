import java.util.concurrent.atomic.AtomicIntegerArray;
import java.util.concurrent.atomic.AtomicLong;
import java.util.concurrent.atomic.LongAdder;

/** Programs of two threads that share cache lines: `Sharing NAME SECONDS PADDED`, PADDED 0 or 1. Says last how many steps were made. */
class Sharing {
    static final int BATCH = 4096;
    static final int THREADS = 2;

    /** Fields that lie side by side. */
    static class Pair {
        volatile long left;
        volatile long right;
    }

    static volatile boolean over;
    static long kept;

    // Every other element, so that some lie in one line with a neighbour wherever the array begins.
    static void count(long[] counts, int at) {
        for (int i = 0; i < BATCH; i++) {
            counts[at + 2 * (i & 3)] += i;
        }
    }

    static void left(Pair pair) {
        for (int i = 0; i < BATCH; i++) pair.left = i;
    }

    static void right(Pair pair) {
        for (int i = 0; i < BATCH; i++) pair.right = i;
    }

    static void raise(AtomicLong level) {
        for (int i = 0; i < BATCH; i++) level.incrementAndGet();
    }

    static void add(AtomicIntegerArray counts, int at) {
        for (int i = 0; i < BATCH; i++) counts.getAndIncrement(at);
    }

    static long lookUp(long[] table, int me) {
        long at = me;
        for (int i = 0; i < BATCH; i++) at = table[(int) (at & 511)] + i;
        return at;
    }

    interface Step { void make(int me); }

    public static void main(String[] words) throws InterruptedException {
        boolean padded = words[2].equals("1");
        int apart = padded ? 32 : 1;
        long[] counts = new long[256];
        long[] table = new long[512];
        Pair[] pairs = { new Pair(), null };
        long[] between = new long[64];
        pairs[1] = padded ? new Pair() : pairs[0];
        AtomicLong[] levels = { new AtomicLong(), null };
        long[] more = new long[64];
        levels[1] = padded ? new AtomicLong() : levels[0];
        AtomicIntegerArray tallies = new AtomicIntegerArray(256);
        kept = between.length + more.length;
        Step step = switch (words[0]) {
            case "array-plain" -> me -> count(counts, 32 + me * apart);
            case "array-atomics" -> me -> add(tallies, 64 + me * apart * 2);
            case "fields-volatile" -> me -> { if (me == 0) left(pairs[0]); else right(pairs[1]); };
            case "shared-atomic" -> me -> raise(levels[me]);
            default -> me -> lookUp(table, me);
        };
        LongAdder made = new LongAdder();
        Thread[] threads = new Thread[THREADS];
        for (int number = 0; number < THREADS; number++) {
            int me = number;
            threads[me] = new Thread(() -> {
                long mine = 0;
                while (!over) {
                    step.make(me);
                    mine += BATCH;
                }
                made.add(mine);
            });
            threads[me].start();
        }
        Thread.sleep((long) (Double.parseDouble(words[1]) * 1000));
        over = true;
        for (Thread thread : threads) thread.join();
        System.out.println("progress: " + made.sum() + " steps");
    }
}
