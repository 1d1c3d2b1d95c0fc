-- Threads of the runtime that sum up side by side and hand their sums to one that waits.
import Control.Concurrent
import Control.Monad (forM, forM_)
import Data.List (foldl')

total :: Int -> Int
total upTo = foldl' (\sum' next -> (sum' * 31 + next) `mod` 1000003) 7 [1 .. upTo]

main :: IO ()
main = do
  boxes <- forM [1 .. 4] $ \number -> do
    box <- newEmptyMVar
    -- Each sum is another one: of equal ones the compiler makes one.
    _ <- forkIO $ forM_ [1 .. 40] $ \turn -> putMVar box $! total (3000000 + 40 * number + turn)
    return box
  sums <- forM boxes $ \box -> sum <$> mapM (const (takeMVar box)) [1 .. 40 :: Int]
  print (sum sums)
