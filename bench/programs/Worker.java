/** Three threads that compute, lock and sleep. */
public class Worker {
    private static long total;

    private static int fibonacci(int n) {
        return n < 2 ? n : fibonacci(n - 1) + fibonacci(n - 2);
    }

    public static void main(String[] words) {
        for (int worker = 0; worker < 3; worker++) {
            new Thread(() -> {
                for (int turn = 0; turn < 300; turn++) {
                    int value = fibonacci(24);
                    synchronized (Worker.class) {
                        total += value;
                    }
                    try {
                        Thread.sleep(1);
                    } catch (InterruptedException stopped) {
                        return;
                    }
                }
            }).start();
        }
    }
}
