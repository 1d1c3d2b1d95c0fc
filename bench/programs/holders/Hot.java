/** Four threads that need one monitor most of the time. */
public class Hot {
    private static final Object LOCK = new Object();
    private static long total;

    private static long compute(long from, int turns) {
        for (int i = 0; i < turns; i++) {
            from = from * 6364136223846793005L + 1442695040888963407L;
        }
        return from;
    }

    private static void underLock() throws InterruptedException {
        synchronized (LOCK) {
            total += compute(total, 100_000);
            Thread.sleep(2);
        }
    }

    public static void main(String[] words) throws Exception {
        long until = System.nanoTime() + 8_000_000_000L;
        Thread[] threads = new Thread[4];
        for (int i = 0; i < threads.length; i++) {
            threads[i] = new Thread(() -> {
                try {
                    while (System.nanoTime() < until) {
                        compute(1, 100_000);
                        underLock();
                    }
                } catch (InterruptedException stopped) {
                    return;
                }
            }, "hot-" + i);
            threads[i].start();
        }
        for (Thread thread : threads) {
            thread.join();
        }
        System.out.println(total);
    }
}
